"""Answers and errors, written in the protocol that the service speaks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from moto.core.serialize import XFormedAttributePicker, get_serializer_class

from lab.aws.actions import ApiError
from lab.aws.api_request import ApiRequest

Answer = tuple[str, list[tuple[str, str]], bytes]
"""Status line, headers and body, as WSGI has them."""
_XML_CODE = re.compile(rb"<Code>([^<]+)</Code>")


def serialize(request: ApiRequest, result: Any, transformers: Mapping[str, Any] | None = None) -> Answer:
    """A result (boto3's members, or moto's object) or an exception as the SDKs expect it from this service.

    `transformers` are those of moto's response class, for moto's objects.
    """
    assert request.model is not None and request.operation is not None
    serializer = get_serializer_class(request.model.service_name, request.protocol)(
        operation_model=request.operation,
        value_picker=XFormedAttributePicker(response_transformers=transformers),
    )
    answer = serializer.serialize(result)
    body, headers = answer["body"], [(name, str(value)) for name, value in answer["headers"].items()]
    return _status_line(answer["status_code"]), headers, body.encode() if isinstance(body, str) else body


def error_answer(request: ApiRequest | None, code: str, message: str, status: int) -> Answer:
    """An error with that HTTP status; plain text if nobody knows what was asked."""
    if request is None or request.operation is None:
        text = f"{code}: {message}".encode()
        return _status_line(status), [("Content-Type", "text/plain"), ("x-amzn-ErrorType", code)], text
    _, headers, body = serialize(request, ApiError(code, message))
    return _status_line(status), headers, body


def _status_line(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"


def error_code(headers: Sequence[tuple[str, str]], body: bytes) -> str:
    """The code of an error answer; empty if it names none."""
    for name, value in headers:
        if name.lower() == "x-amzn-errortype":
            return value.split(":")[0].split("#")[-1]
    if match := _XML_CODE.search(body):
        return match[1].decode()
    try:
        return str(json.loads(body).get("__type", "")).split("#")[-1]
    except (ValueError, AttributeError):
        return ""
