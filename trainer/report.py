"""What a run tells: lines for people, JSON lines for programs, gauges for Prometheus."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from trainer.config import Job
from trainer.files import write_atomically
from trainer.gauges import Gauges
from trainer.ranks import Ranks


class Stopwatch:
    """Where the time since the last report went."""

    def __init__(self) -> None:
        self.current = ""
        """The part that runs, or that an error broke off."""
        self.reset()

    def reset(self) -> None:
        self.began = time.perf_counter()
        self.parts: dict[str, float] = {}
        self.steps = 0
        self.tokens = 0

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start, self.current = time.perf_counter(), part
        yield
        self.current = ""
        self.parts[part] = self.parts.get(part, 0.0) + time.perf_counter() - start

    def count(self, tokens: int) -> None:
        """One more step, of so many targets over all processes."""
        self.steps += 1
        self.tokens += tokens

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began


class Report:
    """The leader prints and writes `metrics.jsonl`; the first process of every node serves Prometheus."""

    def __init__(self, job: Job, ranks: Ranks, flops_per_token: float, peak: float | None) -> None:
        self._job, self._ranks = job, ranks
        self._flops, self._peak = flops_per_token, peak
        self._path = job.output / "metrics.jsonl"
        self.starts = 0
        self.last: dict[str, Any] = {}
        """The newest line of each kind."""
        if ranks.leader:
            job.output.mkdir(parents=True, exist_ok=True)
            self.starts = _mend(self._path)
        self._gauges = Gauges(job, ranks) if ranks.local_rank == 0 and job.metrics.port is not None else None

    def say(self, line: str) -> None:
        """A line for people; the leader's only."""
        if self._ranks.leader:
            print(line, flush=True)

    def started(self, step: int, *, parameters: int, sequences: int, unigram_entropy: float) -> None:
        """The first words of a start, that go on after `step`."""
        job, ranks = self._job, self._ranks
        self.starts += 1
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
        }
        self._write(
            "start",
            step,
            {"start": self.starts, "world": self._ranks.world, "steps": self._job.steps, **facts},
        )
        self._set(step=step, starts=self.starts, steps=self._job.steps)

    def step(self, step: int, *, loss: float, norm: float, rate: float, clock: Stopwatch) -> None:
        """Report the steps since the last call, and begin a new count."""
        speed = clock.tokens / clock.seconds
        achieved = speed / self._ranks.world * self._flops
        mfu = achieved / self._peak if self._peak else None
        tokens = step * self._job.batch.sequences * self._job.model.sequence
        seconds = clock.seconds / clock.steps
        used = memory(self._ranks.device)
        parts = {name: round(part / clock.steps, 6) for name, part in clock.parts.items()}
        facts = {
            "loss": loss if math.isfinite(loss) else None,
            "gradient_norm": norm if math.isfinite(norm) else None,
            "learning_rate": rate,
            "tokens": tokens,
            "tokens_per_second": round(speed, 1),
            "tokens_per_second_per_process": round(speed / self._ranks.world, 1),
            "tflops_per_process": round(achieved / 1e12, 6),
            "mfu": mfu,
            "seconds": {"step": round(seconds, 6), **parts},
            "memory": used,
        }
        self.say(
            f"step {step}/{self._job.steps} loss {loss:.4f} norm {norm:.3f} lr {rate:.2e} tokens/s {speed:,.0f} "
            f"step {seconds:.3f} s" + (f" mfu {mfu:.1%}" if mfu else "")
        )
        self._write("step", step, facts)
        self._set(
            step=step, loss=loss, gradient_norm=norm, learning_rate=rate, tokens=tokens, tokens_per_second=speed,
            mfu=mfu, memory_bytes=used["peak"], step_seconds=seconds,
            data_seconds=parts.get("data", 0.0), save_seconds=parts.get("save", 0.0),
        )  # fmt: skip
        clock.reset()

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
        if self._gauges:
            self._gauges.count("checkpoint_failures")

    def went_back(self, step: int) -> None:
        self.say(f"step {step}/{self._job.steps} went back to the checkpoint of this step")
        self._write("back", step, {})

    def ended(self, step: int, reason: str) -> None:
        self.say(f"step {step}/{self._job.steps} {reason}")
        self._write("end", step, {"reason": reason})

    def _write(self, event: str, step: int, facts: dict[str, Any]) -> None:
        line = {"event": event, "step": step, "time": round(time.time(), 3), **facts}
        self.last[event] = line
        if self._ranks.leader:
            beat = json.dumps({"time": line["time"], "step": step, "event": event, "loss": facts.get("loss")})
            write_atomically(self._job.output / "heartbeat.json", beat + "\n", durable=False)
        if self._ranks.leader:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def _set(self, **values: float | None) -> None:
        if self._gauges:
            self._gauges.set(**values)


def _mend(path: Path) -> int:
    """End a line that a crash cut short; returns how often the run was started before."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    return sum(b'"event": "start"' in line for line in data.splitlines())


def memory(device: torch.device) -> dict[str, int]:
    """Bytes of this process: on a GPU what its allocator holds, else the resident set."""
    if device.type == "cuda":
        statistics = torch.cuda.memory_stats(device)
        return {
            "allocated": statistics["allocated_bytes.all.current"],
            "reserved": statistics["reserved_bytes.all.current"],
            "peak": statistics["allocated_bytes.all.peak"],
            "retries": statistics["num_alloc_retries"],
        }
    import resource

    resident = (
        int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if Path("/proc").exists()
        else 0
    )
    return {"allocated": resident, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
