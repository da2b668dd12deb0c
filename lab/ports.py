"""Whether a port is free to listen on, and which program has it."""

from __future__ import annotations

import socket

import psutil


def can_bind(address: str, port: int) -> bool:
    """Whether a program could listen there now; a connection that is only closing doesn't count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def listener(port: int) -> psutil.Process | None:
    """The process that listens on the port, or None if there is none or it is another user's."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            try:
                return psutil.Process(connection.pid)
            except psutil.NoSuchProcess:  # it has ended meanwhile
                return None
    return None
