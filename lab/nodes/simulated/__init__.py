"""Nodes simulated by kwok."""
