"""The coordinator's side of a race: all contenders stand ready, and one at a time trains for a round.

Each is started once, because starting costs more than a round. Rounds alternate (A B C, C B A, A B C, …), so whatever
else the machine does meets all of them alike; only ratios within a round are compared.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from bench.pace import ADDRESS

PROJECT = Path(__file__).resolve().parents[1]
PROCESSES = 2


class Dropped(Exception):
    """Why a contender can't go on."""


@dataclass
class Contender:
    name: str
    """As the table says it."""
    module: str
    path: tuple[Path, ...] = ()
    """Folders with its packages."""
    output: Path = Path()
    error: str = ""
    seconds: list[float] = field(default_factory=list)
    """Of its rounds."""
    cpu_seconds: list[float] = field(default_factory=list)
    """The same, of all its processes together: what others on the machine do hardly shows in them."""
    _torchrun: subprocess.Popen[bytes] | None = None
    _lines: list[TextIO] = field(default_factory=list)
    _processes: list[int] = field(default_factory=list)

    def start(self, address: Path, arguments: Sequence[str]) -> None:
        self.output.mkdir(parents=True)
        path = ":".join(map(str, (PROJECT, *self.path)))
        threads = str(max(1, len(os.sched_getaffinity(0)) // PROCESSES))
        environment = {
            **os.environ, ADDRESS: str(address), "PYTHONPATH": path, "OMP_NUM_THREADS": threads,
            "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
        }  # fmt: skip
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES),
            "-m", self.module, *arguments,
        ]  # fmt: skip
        with (self.output / "log").open("wb") as log:
            self._torchrun = subprocess.Popen(
                command, cwd=self.output, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )  # fmt: skip

    def meet(self, door: socket.socket, seconds: float) -> None:
        """Wait for all its processes to have done their first step. Raises Dropped."""
        door.settimeout(1.0)
        waited = 0.0
        while len(self._lines) < PROCESSES:
            try:
                line, _ = door.accept()
            except TimeoutError:
                waited += 1.0
                assert self._torchrun
                if self._torchrun.poll() is not None:
                    raise Dropped(self.complaint()) from None
                if waited > seconds:
                    raise Dropped(f"not ready after {seconds:.0f} s") from None
                continue
            line.settimeout(seconds)
            self._lines.append(line.makefile("rw"))
        self._processes = [int(self._hear(words)["pid"]) for words in self._lines]
        for words in self._lines:
            self._hear(words)

    def go(self, steps: int, *, counted: bool) -> None:
        """Train for so many steps; note the seconds of the slowest process if they count. Raises Dropped."""
        for words in self._lines:
            words.write(f"{steps}\n")
            words.flush()
        answers = [self._hear(words) for words in self._lines]
        if counted:
            self.seconds.append(max(float(answer["seconds"]) for answer in answers))
            self.cpu_seconds.append(sum(float(answer["cpu_seconds"]) for answer in answers))

    def _hear(self, words: TextIO) -> dict[str, Any]:
        try:
            line = words.readline()
        except TimeoutError:
            raise Dropped("a round took too long") from None
        if not line:
            raise Dropped(self.complaint())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def complaint(self) -> str:
        """The last line of its log that names an error."""
        lines = (self.output / "log").read_text(errors="replace").splitlines()
        named = [line.strip() for line in lines if "Error" in line and "ChildFailedError" not in line]
        return (named or lines or ["it ended"])[-1][:300]

    def losses(self) -> list[float]:
        """Mean of every ten steps."""
        own, ours = self.output / "losses.json", self.output / "metrics.jsonl"
        if own.exists():
            values: list[float] = json.loads(own.read_text())
            return values
        if not ours.exists():
            return []
        lines = [json.loads(line) for line in ours.read_text().splitlines()]
        return [line["loss"] for line in lines if line["event"] == "step"]

    def end(self) -> None:
        """A process that waits for its next round leaves when its line is cut; the others are killed."""
        for words in self._lines:
            words.close()
        self._lines = []
        if self._torchrun is None:
            return
        try:
            self._torchrun.wait(10)
        except subprocess.TimeoutExpired:
            for process in (*self._processes, self._torchrun.pid):  # workers have sessions of their own
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._torchrun.wait()


def race(
    contenders: list[Contender],
    arguments: Callable[[Contender], Sequence[str]],
    folder: Path,
    *,
    steps: int,
    rounds: int,
    say: Callable[[str], None],
    patience: float = 600,
) -> None:
    """Fill `seconds` of every contender, or `error`. The first round warms up and is not counted."""
    try:
        for contender in contenders:
            # A door each: whoever knocks is this contender.
            address = folder / f"{contender.output.name}.door"
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(str(address))
                door.listen(PROCESSES)
                say(f"  starting {contender.name}")
                contender.start(address, arguments(contender))
                _or_drop(contender, say, partial(contender.meet, door, patience))
        for number in range(rounds + 1):
            for contender in contenders if number % 2 else contenders[::-1]:
                if not contender.error:
                    _or_drop(contender, say, partial(contender.go, steps, counted=number > 0))
            say(f"  round {number} of {rounds}" + ("" if number else " (warm-up)"))
    finally:
        for contender in contenders:
            contender.end()


def _or_drop(contender: Contender, say: Callable[[str], None], body: Callable[[], None]) -> None:
    try:
        body()
    except (Dropped, OSError) as reason:
        contender.error = str(reason)
        say(f"  {contender.name} is out: {reason}")
        contender.end()
