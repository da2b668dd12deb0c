"""Parts of a lab for tests of its commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lab import processes
from lab.cli import services
from lab.ports import can_bind
from lab.settings import LOOPBACK, Lab
from tests.waiting import eventually

EMULATOR = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "ok"}')
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


@contextmanager
def play_emulator(lab: Lab) -> Iterator[processes.Process]:
    """A process on the lab's record that answers on the emulator's port."""
    process = processes.spawn(lab, services.EMULATOR, [sys.executable, "-c", EMULATOR, str(lab.aws_port)])
    try:
        eventually(lambda: services.healthy(lab))
        yield process
    finally:
        processes.stop(process, grace=0)


@contextmanager
def listen(lab: Lab, name: str, port: int) -> Iterator[processes.Process]:
    """A process on the lab's record that has a port of it."""
    script = (
        "import socket, sys, time\n"
        "listening = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "time.sleep(60)"
    )
    process = processes.spawn(lab, name, [sys.executable, "-c", script, str(port)])
    try:
        eventually(lambda: not can_bind(LOOPBACK, port))
        yield process
    finally:
        processes.stop(process, grace=0)
