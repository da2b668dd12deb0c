"""Error answers, written and read in whichever protocol the service speaks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from http import HTTPStatus

from moto.core.serialize import get_serializer_class

from lab.aws.actions import refuse
from lab.aws.calls import Asked

Answer = tuple[str, list[tuple[str, str]], bytes]
"""Status line, headers and body, as WSGI has them."""
_XML_CODE = re.compile(rb"<Code>([^<]+)</Code>")


def error_answer(asked: Asked | None, code: str, message: str, status: int) -> Answer:
    """The error as the SDKs expect it from this service; plain text if nobody knows what was asked."""
    line = f"{status} {HTTPStatus(status).phrase}"
    if asked is None or asked.model is None or asked.operation is None:
        return line, [("Content-Type", "text/plain")], f"{code}: {message}".encode()
    serializer = get_serializer_class(asked.model.service_name, asked.protocol)(
        operation_model=asked.operation
    )
    answer = serializer.serialize(refuse(code, message))
    body = answer["body"]
    headers = [(name, str(value)) for name, value in answer["headers"].items()]
    return line, headers, body.encode() if isinstance(body, str) else body


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
