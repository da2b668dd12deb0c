"""What a request asks for, and the log of every call: `GET /_lab/calls`."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from typing import Any

from botocore.exceptions import UnknownServiceError
from moto.core.model import OperationModel, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model

SIGNING_NAMES = {
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "states": "stepfunctions",
    "tagging": "resourcegroupstaggingapi",
}
"""botocore's name of the services that sign under another one."""

SECRETS = {"SecretString", "SecretBinary", "Plaintext", "Password", "SecretAccessKey"}
_CREDENTIAL = re.compile(r"Credential=([A-Z0-9]+)/\d{8}/([a-z0-9-]*)/([a-z0-9-]+)/aws4_request")
_PRESIGNED = re.compile(r"X-Amz-Credential=([A-Z0-9]+)%2F\d{8}%2F([a-z0-9-]*)%2F([a-z0-9-]+)%2Faws4_request")


@dataclass(frozen=True)
class Asked:
    """What a request asks for, as far as it can be told."""

    service: str
    action: str
    region: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    model: ServiceModel | None = None
    operation: OperationModel | None = None
    protocol: str = ""


@cache
def _service_model(name: str) -> ServiceModel | None:
    try:
        return get_service_model(name)
    except UnknownServiceError:
        return None


def identify(environ: dict[str, Any]) -> Asked | None:
    """The call that a WSGI request makes, or None if it isn't a signed AWS request.

    Reads the body (not S3's, which may be large) and puts it back for the application.
    """
    match = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", "")) or _PRESIGNED.search(
        environ.get("QUERY_STRING", "")
    )
    if not match:
        return None
    region, service = match[2], match[3]
    name = SIGNING_NAMES.get(service, service)
    if service != "s3":
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
    model = _service_model(name)
    if model is None:
        return Asked(service, "Unknown", region)
    request = Request(environ.copy() | {"wsgi.input": BytesIO(b"" if service == "s3" else body)})
    try:
        operation, path = get_service_router(name).match(request)
        protocol = determine_request_protocol(model, request.content_type)
        parameters = _parameters(operation, protocol, request, path)
    except Exception:  # anything may be sent here; moto will answer it as it sees fit
        return Asked(service, "Unknown", region, model=model)
    return Asked(service, operation.name, region, parameters, model, operation, protocol)


def _parameters(
    operation: OperationModel, protocol: str, request: Request, path: dict[str, Any]
) -> dict[str, Any]:
    if operation.service_model.service_name == "s3":
        return dict(path)
    parser = PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    parsed = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.get_data(),
            "url_path": request.path,
            "url_params": path,
        }
    )
    return {**path, **parsed}


@dataclass(frozen=True)
class Entry:
    """One answered call."""

    sequence: int
    time: str
    service: str
    action: str
    region: str
    parameters: Any
    status: int
    error: str


class CallLog:
    """The last calls, oldest first; secrets in them are replaced by asterisks."""

    def __init__(self, size: int = 20_000) -> None:
        self._entries: deque[Entry] = deque(maxlen=size)
        self._sequence = 0
        self._lock = threading.Lock()

    def add(self, asked: Asked, status: int, error: str) -> None:
        with self._lock:
            self._sequence += 1
            self._entries.append(
                Entry(
                    sequence=self._sequence,
                    time=datetime.now(UTC).isoformat(timespec="milliseconds"),
                    service=asked.service,
                    action=asked.action,
                    region=asked.region,
                    parameters=_plain(asked.parameters),
                    status=status,
                    error=error,
                )
            )

    def entries(self, since: int = 0) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(entry) for entry in self._entries if entry.sequence > since]


def _plain(value: Any) -> Any:
    """The value as JSON can carry it, without secrets."""
    if isinstance(value, Mapping):
        return {str(key): "***" if key in SECRETS else _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
