"""The HTTP side: one WSGI application in front of moto's, on loopback only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server import werkzeug_app
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from lab.aws.calls import Asked, CallLog, identify
from lab.aws.console import Console
from lab.aws.errors import Answer, error_answer, error_code
from lab.aws.faults import Faults
from lab.aws.world import World
from lab.settings import LOOPBACK

log = logging.getLogger(__name__)
StartResponse = Callable[..., Any]


class Emulator:
    """Logs each call, lets faults happen, and passes the rest to moto one request at a time.

    moto's backends are plain dictionaries without locks; answering takes milliseconds, so serialising
    requests costs nothing that a local stack would notice and rules out races.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = CallLog()
        self.faults = Faults()
        self.console = Console(world, self.calls, self.faults)
        self.moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/_lab/"):
            return self.console(environ, start_response)
        asked = identify(environ)
        status, headers, body = (self.faults.meet(asked) if asked else None) or self._answer(environ, asked)
        if asked:
            code = int(status.split()[0])
            failure = error_code(headers, body) if code >= 400 else ""
            self.calls.add(asked, code, failure)
            log.info("%s %s %s%s", asked.service, asked.action, code, f" {failure}" if failure else "")
        start_response(status, headers)
        return [body]

    def _answer(self, environ: dict[str, Any], asked: Asked | None) -> Answer:
        """What moto says; a call that it doesn't have, or that breaks it, is an error and no HTML page."""
        try:
            return self._ask_moto(environ)
        except NotImplementedError as error:
            log.warning("%s", error)
            return error_answer(asked, "NotImplemented", f"This lab's AWS can't do that: {error}", 501)
        except Exception as error:
            log.exception("%s", asked)
            return error_answer(asked, "InternalFailure", f"The lab's AWS failed: {error!r}", 500)

    def _ask_moto(self, environ: dict[str, Any]) -> Answer:
        started: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], _failure: Any = None) -> None:
            started[:] = [status, headers]

        with self.world.request():
            body = b"".join(self.moto(environ, start))
        return started[0], started[1], body


class _Handler(MotoRequestHandler):
    """moto's, without its access log: Emulator writes one line for each call."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def make(world: World) -> BaseWSGIServer:
    """Bind the lab's AWS port on loopback. Raises OSError (or SystemExit from werkzeug) if it is taken."""
    werkzeug_app.DISABLE_GLOBAL_CORS = True  # no web page has any business with the lab
    server = make_server(
        LOOPBACK, world.lab.aws_port, Emulator(world), threaded=True, request_handler=_Handler
    )
    server.daemon_threads = True  # type: ignore[attr-defined]
    return server
