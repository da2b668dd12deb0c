"""Bad days on request: throttle, fail or delay the next calls of an action (`/_lab/faults`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from moto.core.serialize import get_serializer_class

from lab.aws.actions import refuse
from lab.aws.calls import Asked

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

    def hits(self, asked: Asked) -> bool:
        return self.times > 0 and self.service == asked.service and self.action in ("*", asked.action)


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

    def meet(self, asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
        """Wait if a fault says so; returns the error answer (status, headers, body) if it has one."""
        with self._lock:
            fault = next((fault for fault in self._faults if fault.hits(asked)), None)
            if fault is None:
                return None
            fault.times -= 1
            self._faults = [kept for kept in self._faults if kept.times > 0]
        time.sleep(fault.delay)
        return _answer(asked, fault) if fault.error else None


def _answer(asked: Asked, fault: Fault) -> tuple[int, dict[str, str], bytes] | None:
    if asked.model is None or asked.operation is None:
        return None
    throttle = fault.error == "throttle"
    code = THROTTLING.get(asked.service, "ThrottlingException") if throttle else fault.error
    serializer = get_serializer_class(asked.model.service_name, asked.protocol)(operation_model=asked.operation)
    answer = serializer.serialize(refuse(code, fault.message))
    body = answer["body"]
    status = 503 if throttle and code in THROTTLING.values() else fault.status
    return status, dict(answer["headers"]), body.encode() if isinstance(body, str) else body
