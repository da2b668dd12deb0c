"""The log of every call: `GET /_lab/calls`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from lab.aws.api_request import ApiRequest

SECRETS = {"SecretString", "SecretBinary", "Plaintext", "Password", "SecretAccessKey"}


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

    def add(self, request: ApiRequest, status: int, error: str) -> None:
        with self._lock:
            self._sequence += 1
            self._entries.append(
                Entry(
                    sequence=self._sequence,
                    time=datetime.now(UTC).isoformat(timespec="milliseconds"),
                    service=request.service,
                    action=request.action,
                    region=request.region,
                    parameters=_plain(request.parameters),
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
