"""Benchmarks of the trainer against its peers, on this machine.

python -m bench                          everything (make bench)
python -m bench training --rounds 3      one of them, quicker and noisier
python -m bench checkpoint data --json out.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import checkpoint, data, machine, peers, training

BENCHMARKS: dict[str, Any] = {"training": training, "checkpoint": checkpoint, "data": data}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "which", nargs="*", metavar="BENCHMARK", help=f"{', '.join(BENCHMARKS)}; default: all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument(
        "--rounds", type=int, help="counted rounds of each benchmark, instead of its own number"
    )
    parser.add_argument(
        "--folder", type=Path, help="work here and leave everything, instead of a temporary folder"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.which if name not in BENCHMARKS]:
        parser.error(f"no benchmark {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds: at least one")
    if reason := peers.missing():
        print(reason, file=sys.stderr)
        return 2
    sys.path[:0] = map(str, peers.path())  # for the versions in the header

    facts = machine.facts()
    print(machine.describe(facts), flush=True)
    outcome: dict[str, Any] = {"machine": facts}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        for name in options.which or BENCHMARKS:
            folder = (options.folder or Path(temporary)).absolute() / name
            folder.mkdir(parents=True)
            rounds = {} if options.rounds is None else {"rounds": options.rounds}
            print(f"\n{name}", flush=True)
            outcome[name] = BENCHMARKS[name].run(folder, lambda line: print(line, flush=True), **rounds)
            print("\n" + BENCHMARKS[name].show(outcome[name]), flush=True)
    outcome["seconds"] = round(time.monotonic() - began, 1)
    outcome["load_at_end"] = machine.facts()["load"]
    print(f"\n{outcome['seconds']:.0f} s; load at the end {outcome['load_at_end']}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(outcome, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
