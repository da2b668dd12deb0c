"""`pulumi-resource-aws [flags] [engine address]`: serve until the engine goes away."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

from lab.providers.aws.engine import Engine
from lab.providers.aws.protocol import provider_pb2_grpc
from lab.providers.aws.server import Provider
from lab.providers.parent import die_with_parent

_THREADS = 64
"""One per operation under way; most of them wait for AWS."""
_LARGEST_MESSAGE = 400 * 1024 * 1024
"""As pulumi's own servers."""


def serve(engine_address: str | None) -> tuple[grpc.Server, int]:
    """A running server on a free port of loopback, and the port."""
    options = [("grpc.max_receive_message_length", _LARGEST_MESSAGE), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(Engine(engine_address)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main() -> None:
    die_with_parent()
    logging.basicConfig(level=logging.WARNING)
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    server, port = serve(addresses[-1] if addresses else None)
    # The engine reads the first line as the port; nothing may be printed before it.
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
