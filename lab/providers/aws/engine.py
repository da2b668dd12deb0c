"""Lines for the person who watches the engine: what an operation is waiting for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import grpc

from lab.providers.aws.protocol import engine_pb2, engine_pb2_grpc

_PAUSE = 5.0
"""Seconds between two lines about one resource."""


class Engine:
    """The engine's log service; without an address (tests) lines go nowhere."""

    def __init__(self, address: str | None) -> None:
        self._stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address)) if address else None

    def progress(self, urn: str) -> Callable[[str], None]:
        """A function that shows a line beside the resource until the next one replaces it."""
        last = 0.0

        def show(message: str) -> None:
            nonlocal last
            if self._stub is None or time.monotonic() - last < _PAUSE:
                return
            last = time.monotonic()
            # A line that can't be shown must not fail the operation.
            with contextlib.suppress(grpc.RpcError):
                self._stub.Log(
                    engine_pb2.LogRequest(severity=engine_pb2.INFO, message=message, urn=urn, ephemeral=True),
                    timeout=2,
                )

        return show
