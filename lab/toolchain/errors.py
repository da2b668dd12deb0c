"""The one error that the toolchain raises for people to read."""

from __future__ import annotations


class ToolchainError(Exception):
    """What is wrong, where to look, and what to do about it."""
