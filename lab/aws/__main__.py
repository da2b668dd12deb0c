"""`python -m lab.aws`: the emulator in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from types import FrameType

from lab.aws import server
from lab.aws.actions import install
from lab.aws.seed import seed
from lab.aws.services import load
from lab.aws.world import World
from lab.nodes.api import Runtime
from lab.settings import Lab

log = logging.getLogger("lab.aws")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.aws", description=__doc__)
    parser.add_argument("--name", help="the lab's name (default: SHARDYARD_LAB or local)")
    parser.add_argument(
        "--no-kubernetes",
        action="store_true",
        help="clusters become ACTIVE at once, with nothing behind them",
    )
    parser.add_argument("--pace", type=float, default=1.0, help="multiplies every wait (default 1, 0: none)")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("werkzeug").setLevel(logging.WARNING)

    lab = Lab.from_environment(arguments.name)
    world = World(lab, pace=arguments.pace)
    load()
    install()
    seed()
    listener = server.make(world)
    if not arguments.no_kubernetes:
        world.runtime = _runtime(lab)

    def stop(number: int, _: FrameType | None) -> None:
        log.info("signal %s: stopping", signal.Signals(number).name)
        threading.Thread(target=listener.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    log.info("AWS of lab %s on %s", lab.name, lab.aws_endpoint)
    listener.serve_forever()
    world.close()
    return 0


def _runtime(lab: Lab) -> Runtime:
    from lab.nodes.runtime import KubernetesRuntime

    return KubernetesRuntime(lab, f"{lab.aws_endpoint}/_lab/authenticate")


if __name__ == "__main__":
    sys.exit(main())
