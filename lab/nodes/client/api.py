"""A client for the Kubernetes API: objects are plain dictionaries, paths are those of the API reference.

Thread-safe: urllib3's pool hands each call a connection of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from lab.nodes.pki import KeyPair

Object = dict[str, Any]
FIELD_MANAGER = "shardyard-lab"
APPLY = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML too."""
MERGE = "application/merge-patch+json"
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


class ApiError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class ApiClient:
    """Paths are the API server's own, such as /api/v1/nodes/NAME."""

    def __init__(self, url: str, certificate_authority: str, pair: KeyPair, connections: int = 16) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            block=True,
            ca_certs=certificate_authority,
            cert_file=str(pair.certificate),
            key_file=str(pair.key),
            retries=False,
        )
        # A watch holds its connection for as long as it lasts, so watches have a pool of their own.
        self._watches = urllib3.PoolManager(
            maxsize=4,
            ca_certs=certificate_authority,
            cert_file=str(pair.certificate),
            key_file=str(pair.key),
            retries=False,
        )

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = 30,
    ) -> Object:
        """Raises ApiError if the server refuses, urllib3.exceptions.HTTPError if it can't be reached."""
        response = self._pool.request(
            method,
            self._address(path, query),
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            timeout=timeout,
        )
        if response.status >= 400:
            raise ApiError(response.status, _message(response.data))
        return _object(response.data)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        return self.call("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """The object, or None if there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Object]:
        return list(self.get(path, query)["items"])

    def apply(self, path: str, body: Object) -> Object:
        """Create the object, or make its fields what `body` says."""
        return self.call("PATCH", path, body, {"fieldManager": FIELD_MANAGER, "force": "true"}, APPLY)

    def merge(self, path: str, body: Object) -> Object:
        return self.call("PATCH", path, body, {"fieldManager": FIELD_MANAGER}, MERGE)

    def create(self, path: str, body: Object) -> Object | None:
        """Create the object; None if one of that name exists."""
        try:
            return self.call("POST", path, body, {"fieldManager": FIELD_MANAGER})
        except ApiError as error:
            if error.status == 409:
                return None
            raise

    def delete(self, path: str, grace_seconds: int | None = None) -> None:
        """Delete the object if it exists."""
        query = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        try:
            self.call("DELETE", path, query=query)
        except ApiError as error:
            if error.status != 404:
                raise

    def watch(
        self, path: str, version: str, query: Mapping[str, str], seconds: int = 300
    ) -> Iterator[Object]:
        """Events after resource version `version`, until the server ends the stream (after `seconds`).

        Raises ApiError with status 410 if that version is too old.
        """
        query = {**query, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        response = self._watches.request(
            "GET",
            self._address(path, query),
            preload_content=False,
            timeout=urllib3.Timeout(connect=10, read=seconds + 10),
        )
        try:
            if response.status >= 400:
                raise ApiError(response.status, _message(response.read()))
            for line in _lines(response):
                event = _object(line)
                if event["type"] == "ERROR":
                    raise ApiError(event["object"].get("code", 500), event["object"].get("message", ""))
                yield event
        finally:
            response.close()

    def _address(self, path: str, query: Mapping[str, str] | None) -> str:
        return self.url + quote(path) + (f"?{urlencode(query)}" if query else "")


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _object(content: bytes) -> Object:
    try:
        answer = json.loads(content)
    except ValueError:
        return {"text": content.decode(errors="replace")}  # /readyz answers in words
    return answer if isinstance(answer, dict) else {"value": answer}


def _message(content: bytes) -> str:
    answer = _object(content)
    return str(answer.get("message") or answer.get("text") or answer)
