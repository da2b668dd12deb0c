"""Whether a port is free to listen on."""

from __future__ import annotations

import socket


def can_bind(address: str, port: int) -> bool:
    """Whether a program could listen there now; a connection that is only closing doesn't count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True
