"""The commands of the local stack: up, down, status and env."""
