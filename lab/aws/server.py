"""The HTTP side: one WSGI application in front of moto's, on loopback only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from moto.core.exceptions import ServiceException
from moto.iam.models import get_account_id_from
from moto.moto_server import werkzeug_app
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, make_server

from lab.aws.actions import (
    Call,
    answered_by_moto,
    handler_of,
    response_class,
    run_checks,
    run_consequences,
)
from lab.aws.api_request import ApiRequest, read_request
from lab.aws.call_log import CallLog
from lab.aws.console import Console
from lab.aws.faults import Faults
from lab.aws.s3 import unknown_to_moto
from lab.aws.serialization import Answer, error_answer, error_code, serialize
from lab.aws.world import World
from lab.settings import LOOPBACK

log = logging.getLogger(__name__)
StartResponse = Callable[..., Any]


class Emulator:
    """Reads each request once, logs it, lets faults happen, and answers it here or by moto, one at a time.

    moto's backends are plain dictionaries without locks; answering takes milliseconds, so serialising
    requests costs nothing that a local stack would notice and rules out races.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = CallLog()
        self.faults = Faults()
        self.console = Console(world, self.calls, self.faults)
        self.moto = DomainDispatcherApplication(_moto_service)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/_lab/"):
            return self.console(environ, start_response)
        request = read_request(environ)
        injected = self.faults.meet(request) if request else None
        status, headers, body = injected or self._answer(environ, request)
        if request:
            code = int(status.split()[0])
            failure = error_code(headers, body) if code >= 400 else ""
            self.calls.add(request, code, failure)
            log.info("%s %s %s%s", request.service, request.action, code, f" {failure}" if failure else "")
        start_response(status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: dict[str, Any], request: ApiRequest | None) -> Answer:
        """The answer, or the API's error; an operation that nobody implements is an error as well."""
        try:
            with self.world.request():
                if request is None or request.operation is None:
                    answer = self._ask_moto(environ)
                else:
                    answer = self._answer_operation(environ, request)
        except NotImplementedError:
            return _not_implemented(request)
        except Exception as error:
            log.exception("%s", request)
            return error_answer(request, "InternalFailure", f"The AWS emulator failed: {error!r}", 500)
        # moto's web application answers a path that none of its services has with a web page.
        unknown = answer[0].startswith("404") and answer[2].lstrip().lower().startswith(b"<!doctype html")
        return _not_implemented(request) if unknown else answer

    def _answer_operation(self, environ: dict[str, Any], request: ApiRequest) -> Answer:
        """Checks, then the function registered for the operation or else moto."""
        call = Call(
            world=self.world,
            action=request.action,
            region=request.region,
            account=get_account_id_from(request.access_key),
            access_key=request.access_key,
            parameters=request.parameters,
        )
        handler, moto_class = handler_of(request.service, request.action), response_class(request.service)
        try:
            run_checks(request.service, call)
            if handler is None:
                if unknown_to_moto(request):
                    raise NotImplementedError
                answer = answered_by_moto(call, lambda: self._ask_moto(environ))
                if moto_class is None and int(answer[0].split()[0]) < 300:
                    run_consequences(request.service, call, None)
                return answer
            result = handler(call)
            run_consequences(request.service, call, result)
        except ServiceException as error:
            return serialize(request, error)
        except HTTPException as error:  # of those services of moto that have errors of this older kind
            return error_answer(
                request,
                getattr(error, "error_type", error.name),
                getattr(error, "message", str(error.description)),
                error.code or 400,
            )
        return serialize(request, result, getattr(moto_class, "RESPONSE_KEY_PATH_TO_TRANSFORMER", None))

    def _ask_moto(self, environ: dict[str, Any]) -> Answer:
        started: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], _failure: Any = None) -> None:
            started[:] = [status, headers]

        body = b"".join(self.moto(environ, start))
        return started[0], started[1], body


def _moto_service(name: str | None) -> Any:
    """moto's application for a service; it names none for the services that it doesn't have."""
    if name is None:
        raise NotImplementedError
    return create_backend_app(name)


def _not_implemented(request: ApiRequest | None) -> Answer:
    asked = f"{request.service} {request.action}" if request else "a request without a signature"
    message = (
        f"The AWS emulator of the local stack doesn't implement {asked}. Add a function for it under lab/aws "
        "(lab/aws/__init__.py says how), or don't make this call on the local stack."
    )
    log.error("%s", message)
    return error_answer(request, "NotImplemented", message, 501)


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
