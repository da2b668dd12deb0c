"""What a run tells: lines for people, JSON lines for programs, gauges for Prometheus."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from trainer.board import Board
from trainer.config import Job
from trainer.files import remove_leftovers, write_atomically
from trainer.gauges import PARTS, Gauges, of_step
from trainer.ranks import Ranks
from trainer.stopwatch import Stopwatch
from trainer.stragglers import Compute, Spread, gather, spread
from trainer.usage import used

METRICS = "metrics.jsonl"


class Report:
    """The leader prints and writes `metrics.jsonl`; the first process of every node serves Prometheus."""

    def __init__(
        self, job: Job, ranks: Ranks, flops_per_token: float, peak: float | None, compute: Compute
    ) -> None:
        self._job, self._ranks = job, ranks
        self._flops, self._peak = flops_per_token, peak
        self._compute = compute
        self._path = job.output / METRICS
        self.starts = 0
        self.last: dict[str, Any] = {}
        """The newest line of each kind."""
        self._board: Board | None = None
        self._interval: float | None = None
        self._slow: dict[str, int | None] = {}
        if ranks.leader:
            job.output.mkdir(parents=True, exist_ok=True)
            self.starts = _mend(self._path)
            remove_leftovers(job.output)
        self._gauges = Gauges(job, ranks) if ranks.local_rank == 0 and job.metrics.port is not None else None

    def say(self, line: str) -> None:
        """A line for people; the leader's only."""
        if self._ranks.leader:
            print(line, flush=True)

    def started(self, step: int, *, parameters: int, sequences: int, unigram_entropy: float) -> None:
        """The first words of a start, that go on after `step`."""
        job, ranks = self._job, self._ranks
        self.starts += 1
        if ranks.leader and job.metrics.tensorboard:
            self._board = Board(job.output / "tensorboard", step)
        self.say(
            f"{job.name}: {parameters:,} parameters, {ranks.world} process(es) on {ranks.device.type}, "
            f"{job.parallel.strategy}, "
            + (f"tensor groups of {job.parallel.tensor}, " if job.parallel.tensor > 1 else "")
            + f"{job.precision.compute}, "
            f"{sequences:,} sequences of {job.model.sequence} tokens, unigram entropy {unigram_entropy:.4f} nats, "
            + (f"resuming after step {step}" if step else "from the initial weights")
        )
        facts = {
            "parameters": parameters,
            "unigram_entropy": unigram_entropy,
            "precision": job.precision.compute,
            "float8": job.precision.float8,
            "strategy": job.parallel.strategy,
            "tensor": job.parallel.tensor,
            "context": job.parallel.context,
        }
        self._write(
            "start",
            step,
            {"start": self.starts, "world": self._ranks.world, "steps": self._job.steps, **facts},
        )
        self._set(step=step, starts=self.starts, steps=self._job.steps)

    def step(self, step: int, *, loss: float, norm: float, rate: float, clock: Stopwatch) -> None:
        """Report the steps since the last call, and begin a new count. For all processes at once."""
        seconds = clock.seconds / clock.steps
        speed = clock.steps * self._job.tokens / clock.seconds
        achieved = speed / self._ranks.world * self._flops
        mfu = achieved / self._peak if self._peak else None
        parts = {name: part / clock.steps for name, part in clock.parts().items()}
        memory = used(self._ranks.device)
        mine = (parts.get("data", 0.0), self._compute.seconds() / clock.steps, memory["peak"])
        data, compute, peaks = map(spread, gather(self._ranks.counts, mine))
        tokens = step * self._job.tokens
        facts = {
            "loss": loss if math.isfinite(loss) else None,
            "gradient_norm": norm if math.isfinite(norm) else None,
            "learning_rate": rate,
            "tokens": tokens,
            "tokens_per_second": round(speed, 1),
            "tokens_per_second_per_process": round(speed / self._ranks.world, 1),
            "tflops_per_process": round(achieved / 1e12, 6),
            "mfu": mfu,
            "seconds": {"step": round(seconds, 6), **{name: round(part, 6) for name, part in parts.items()}},
            "memory": {**memory, "most": int(peaks.most)},
            "ranks": {"data": self._named(data), "compute": self._named(compute)},
        }
        split = " ".join(f"{name} {part:.3f}" for name, part in parts.items())
        self.say(
            f"step {step}/{self._job.steps} loss {loss:.4f} norm {norm:.3f} lr {rate:.2e} tokens/s {speed:,.0f} "
            f"step {seconds:.3f} s ({split}) memory {peaks.most / 2**30:.2f} GiB"
            + (f" mfu {mfu:.1%}" if mfu else "")
        )
        self._write("step", step, facts)
        absent = dict.fromkeys((f"{name}_seconds" for name in PARTS if name not in parts), 0.0)
        whole = {"loss": loss, "gradient_norm": norm}  # a gauge can say that it is not finite
        self._set(
            step=step, **(of_step(facts) | absent | whole), slowest_rank=compute.slowest, slowest_ratio=compute.ratio,
            slowest_data_rank=data.slowest, slowest_data_ratio=data.ratio,
        )  # fmt: skip
        self._warn(step, "computes", compute, seconds)
        self._warn(step, "waits for data", data, seconds)
        clock.reset()

    def _warn(self, step: int, what: str, one: Spread, seconds: float) -> None:
        """Of a slow process, if it was slow in the report before, too."""
        factor = self._job.watch.straggler
        slow = one.slowest if factor and one.straggles(factor, seconds) else None
        if slow is not None and slow == self._slow.get(what) and self._ranks.leader:
            self.say(
                f"warning: step {step}: {self._ranks.control.name(slow)} is slow: it {what} for {one.most:.3f} s of "
                f"a step, {one.ratio:.1f} times as long as the others"
            )
        self._slow[what] = slow

    def _named(self, one: Spread) -> dict[str, Any]:
        return {
            "min": round(one.least, 6), "median": round(one.middle, 6), "max": round(one.most, 6),
            "slowest": self._ranks.control.name(one.slowest) if self._ranks.leader else "",
        }  # fmt: skip

    def held_out(self, step: int, loss: float) -> None:
        self.say(f"step {step}/{self._job.steps} held-out loss {loss:.4f}")
        self._write("held_out", step, {"loss": loss})
        self._set(held_out_loss=loss)

    def saved(self, step: int, *, seconds: float, **traffic: float) -> None:
        """`traffic`: requests, retries and bytes, where it went over a network."""
        retries = int(traffic.get("retries", 0))
        self.say(
            f"step {step}/{self._job.steps} checkpoint saved in {seconds:.1f} s"
            + (f", {retries} request(s) tried again" if retries else "")
        )
        self._write("checkpoint", step, {"seconds": round(seconds, 3), **traffic})
        self._set(checkpoint_step=step, checkpoint_seconds=seconds)
        if self._gauges:
            self._gauges.count("checkpoint_retries", retries)

    def save_failed(self, step: int, reason: str) -> None:
        self.say(f"step {step}/{self._job.steps} checkpoint NOT saved: {reason}")
        self._write("checkpoint_failed", step, {"reason": reason})
        self._count("checkpoint_failures")

    def went_back(self, step: int) -> None:
        self.say(f"step {step}/{self._job.steps} went back to the checkpoint of this step")
        self._write("back", step, {})

    def left_out(self, step: int, reason: str) -> None:
        """A batch is not used, now and whenever its step is done again."""
        self.say(reason)
        self._write("left_out", step, {"reason": reason}, durable=True)
        self._count("batches_left_out")

    def spike(self, step: int, loss: float, ratio: float) -> None:
        self.say(f"warning: step {step}: loss {loss:.4f} is {ratio:.1f} times its running median")
        self._write("spike", step, {"loss": loss, "ratio": round(ratio, 3)})
        self._count("loss_spikes")

    def ended(self, step: int, reason: str, clock: Stopwatch | None = None) -> None:
        """`clock` has what came after the last report: the last save, most of all."""
        self.say(f"step {step}/{self._job.steps} {reason}")
        parts = clock.parts() if clock else {}
        self._write(
            "end", step, {"reason": reason, "seconds": {name: round(one, 6) for name, one in parts.items()}}
        )

    def failed(self, step: int, reason: str, status: int) -> None:
        self._write("failed", step, {"reason": reason, "status": status})

    def _write(self, event: str, step: int, facts: dict[str, Any], *, durable: bool = False) -> None:
        """A line of `metrics.jsonl` and a heartbeat. Where the disk is full there is none: training is worth more."""
        line = {"event": event, "step": step, "time": round(time.time(), 3), **facts}
        if event == "step" and event in self.last:
            self._interval = round(line["time"] - self.last[event]["time"], 3)
        self.last[event] = line
        if not self._ranks.leader:
            return
        try:
            self._beat(line)
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if self._board:
                self._board.write(event, step, facts)
        except OSError as error:
            print(f"step {step}: no metrics written: {error}", file=sys.stderr, flush=True)

    def _beat(self, line: dict[str, Any]) -> None:
        """README.md says what each field means."""
        beat = {
            "time": line["time"], "event": line["event"], "step": line["step"], "steps": self._job.steps,
            "loss": self.last.get("step", {}).get("loss"), "interval": self._interval, "start": self.starts,
            "world": self._ranks.world, "host": socket.gethostname(), "process": os.getpid(),
        }  # fmt: skip
        write_atomically(self._job.output / "heartbeat.json", json.dumps(beat) + "\n", durable=False)

    def _set(self, **values: float | None) -> None:
        if self._gauges:
            self._gauges.set(**values)

    def _count(self, name: str) -> None:
        if self._gauges:
            self._gauges.count(name)


def _mend(path: Path) -> int:
    """End a line that a crash cut short; returns how often the run was started before."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    return sum(b'"event": "start"' in line for line in data.splitlines())
