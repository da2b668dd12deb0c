"""A token webhook that accepts the tokens it is told to, and records the requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any


@dataclass
class Webhook:
    users: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Token → username and groups."""
    callers: list[str] = field(default_factory=list)
    """The path of each review."""
    port: int = 0

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.callers.append(self.path)
                user = hook.users.get(review["spec"]["token"])
                status: dict[str, Any] = {"authenticated": bool(user)}
                if user:
                    status |= {"user": {"username": user[0], "groups": user[1]}}
                body = json.dumps({**review, "status": status}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
