"""`pulumi-resource-aws [flags] [engine address]`: serve until the engine goes away."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from lab.providers.aws.engine import Engine
from lab.providers.aws.server import Provider

_THREADS = 64
"""One per operation under way; most of them wait for AWS."""
_LARGEST_MESSAGE = 400 * 1024 * 1024
"""As pulumi's own servers."""


def die_with(parent: int) -> None:
    """End this process when its parent does: an engine that was killed can't say goodbye."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def serve(engine_address: str | None) -> tuple[grpc.Server, int]:
    """A running server on a free port of loopback, and the port."""
    options = [("grpc.max_receive_message_length", _LARGEST_MESSAGE), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(Engine(engine_address)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main() -> None:
    parent = os.getppid()
    logging.basicConfig(level=logging.WARNING)
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    server, port = serve(addresses[-1] if addresses else None)
    # The engine reads the first line as the port; nothing may be printed before it.
    print(port, flush=True)
    threading.Thread(target=die_with, args=(parent,), daemon=True).start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
