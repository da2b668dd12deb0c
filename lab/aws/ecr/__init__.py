"""ECR in front of the lab's real image registry."""
