"""Run the tests that start processes in two halves side by side.

    python -m tests.side_by_side [PYTEST OPTIONS]

Those on the local stack mostly wait for a cluster, those of the trainer compute. Each line says whose it is; the end
of each half is printed again when both are through. Exits with 0 if both passed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field

HALVES = {"lab": "lab and not soak", "trainer": "processes and not lab and not soak"}
"""Which tests, by the marks of pyproject.toml. Soak tests run by themselves (`make soak`)."""
SUMMARY = "short test summary info"


@dataclass
class Half:
    """One pytest and what it says."""

    name: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Until it ends."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            print(f"{self.name:<7} | {self.lines[-1]}", flush=True)

    def end(self) -> list[str]:
        """Its failures and its last line."""
        begins = [number for number, line in enumerate(self.lines) if SUMMARY in line]
        return self.lines[begins[-1] :] if begins else self.lines[-1:]


def start(name: str, marks: str, options: list[str]) -> Half:
    command = [sys.executable, "-m", "pytest", "-m", marks, "-o", f"cache_dir=.pytest_cache/{name}", *options]
    return Half(
        name,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ),
    )


def main(options: list[str]) -> int:
    halves = [start(name, marks, options) for name, marks in HALVES.items()]

    def pass_on(number: int, _: object) -> None:
        for half in halves:
            half.process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda *_: None)  # the terminal tells the halves too, and they clean up
    threads = [threading.Thread(target=half.read) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [half.process.wait() for half in halves]
    for half in halves:
        print("\n".join([f"\n{half.name}:", *half.end()]), flush=True)
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
