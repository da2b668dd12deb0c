"""What EKS puts into a cluster: add-ons and access policies."""
