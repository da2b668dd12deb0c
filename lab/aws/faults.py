"""Bad days on request: throttle, fail or delay the next calls of an action (`/_lab/faults`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.aws.api_request import ApiRequest
from lab.aws.serialization import Answer, error_answer

THROTTLING = {"ec2": "RequestLimitExceeded", "s3": "SlowDown"}
"""The code that a service throttles with, where it isn't ThrottlingException."""


@dataclass
class Fault:
    """What happens to the next `times` calls of an action ("*": of any action of the service)."""

    service: str
    action: str = "*"
    times: int = 1
    error: str = ""
    """Error code; "throttle" stands for the service's own throttling error; empty: no error."""
    message: str = "Rate exceeded"
    status: int = 400
    delay: float = 0.0
    """Seconds to wait first."""

    def hits(self, request: ApiRequest) -> bool:
        return self.times > 0 and self.service == request.service and self.action in ("*", request.action)


class Faults:
    """The faults in force, oldest first."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, description: Mapping[str, Any]) -> None:
        """Raises TypeError for an unknown field."""
        with self._lock:
            self._faults.append(Fault(**description))

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def list(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(fault) for fault in self._faults]

    def meet(self, request: ApiRequest) -> Answer | None:
        """Wait if a fault says so; returns the error answer if it has one."""
        with self._lock:
            fault = next((fault for fault in self._faults if fault.hits(request)), None)
            if fault is None:
                return None
            fault.times -= 1
            self._faults = [kept for kept in self._faults if kept.times > 0]
        time.sleep(fault.delay)
        return _answer(request, fault) if fault.error else None


def _answer(request: ApiRequest, fault: Fault) -> Answer:
    if fault.error != "throttle":
        return error_answer(request, fault.error, fault.message, fault.status)
    code = THROTTLING.get(request.service, "ThrottlingException")
    return error_answer(request, code, fault.message, 503 if request.service in THROTTLING else 400)
