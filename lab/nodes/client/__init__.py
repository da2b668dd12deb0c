"""The Kubernetes API: client, informer, drain."""
