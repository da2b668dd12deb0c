"""EKS: clusters, node groups, add-ons, access; the Runtime makes them run."""
