"""What an HTTP request asks of AWS, read once by botocore's model of the service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from typing import Any

from botocore.exceptions import UnknownServiceError
from moto.core.model import OperationModel, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model

MODEL_NAMES = {
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "states": "stepfunctions",
    "tagging": "resourcegroupstaggingapi",
}
"""botocore's name of the services that sign under another one."""
S3_CONTROL_PATH = "/v20180820/"
"""S3 Control signs as "s3"; its paths begin with this."""

_CREDENTIAL = re.compile(r"Credential=([A-Z0-9]+)/\d{8}/([a-z0-9-]*)/([a-z0-9-]+)/aws4_request")
_PRESIGNED = re.compile(r"X-Amz-Credential=([A-Z0-9]+)%2F\d{8}%2F([a-z0-9-]*)%2F([a-z0-9-]+)%2Faws4_request")


@dataclass(frozen=True)
class ApiRequest:
    """One request: the service by the name that it signs with, the operation and its parameters as boto3 names
    them. Without `operation` (action "Unknown") the service's model has no such operation."""

    service: str
    action: str
    region: str
    access_key: str
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


def read_request(environ: dict[str, Any]) -> ApiRequest | None:
    """The API request in a WSGI request, or None if that isn't signed.

    Reads the body (not an S3 object's, which may be large) and puts it back for the application.
    """
    match = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", "")) or _PRESIGNED.search(
        environ.get("QUERY_STRING", "")
    )
    if not match:
        return None
    access_key, region, service = match.groups()
    if service == "s3" and environ["PATH_INFO"].startswith(S3_CONTROL_PATH):
        service = "s3control"
    name = MODEL_NAMES.get(service, service)
    model = _service_model(name)
    if model is None:
        return ApiRequest(service, "Unknown", region, access_key)
    try:
        body = b"" if service == "s3" else _body(environ)
        request = Request(environ.copy() | {"wsgi.input": BytesIO(body)})
        operation, path = get_service_router(name).match(request)
        if service == "s3" and not operation.has_streaming_input:
            body = _body(environ)
            request = Request(environ.copy() | {"wsgi.input": BytesIO(body)})
        protocol = determine_request_protocol(model, request.content_type)
        parameters = _parameters(operation, protocol, request, path)
    except Exception:  # anything may be sent here; moto will answer it as it sees fit
        return ApiRequest(service, "Unknown", region, access_key, model=model)
    return ApiRequest(service, operation.name, region, access_key, parameters, model, operation, protocol)


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = BytesIO(body)
    return body


def _parameters(
    operation: OperationModel, protocol: str, request: Request, path: dict[str, Any]
) -> dict[str, Any]:
    if operation.has_streaming_input:
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
    return {**path, **(parsed or {})}
