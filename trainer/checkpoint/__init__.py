"""Checkpoints: complete or absent.

store.py is about folders, commits and damage and needs no torch; sharded.py writes and reads the tensors.
"""
