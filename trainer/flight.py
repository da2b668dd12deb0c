"""PyTorch's flight recorder: what each process last asked of the others, for when a step breaks off.

NCCL's watchdog writes its record when an operation times out, to `flight/nccl-rank-N` in the output folder; `write`
puts that of gloo beside it. Both are read by PyTorch's own analysis, which finds the process that did something else:

    python -m torch.distributed.flight_recorder.fr_trace --prefix nccl-rank- OUTPUT/flight
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from trainer.files import write_atomically

ENTRIES = 2000
"""Operations remembered; a few steps' worth."""


def switch_on(folder: Path) -> None:
    """Before any process group is made. A variable that is set already is left alone.

    Error handling 3 leaves the process alive long enough to write the record (pytorch#121055).
    """
    modern = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2]) >= (2, 11)
    for name, value in {
        "TORCH_FR_BUFFER_SIZE" if modern else "TORCH_NCCL_TRACE_BUFFER_SIZE": str(ENTRIES),
        "TORCH_FR_DUMP_TEMP_FILE" if modern else "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(
            folder / "nccl-rank-"
        ),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
    }.items():
        os.environ.setdefault(name, value)
    if torch.cuda.is_available():  # NCCL makes no folder
        folder.mkdir(parents=True, exist_ok=True)


def waiting() -> str:
    """The operation that this process waits in: `gloo:all_reduce`; "" where it waits in none that is known.

    On a GPU it is the first of those that were queued and are not done, which all others wait for.
    """
    for dump, place in (("_dump_nccl_trace_json", 0), ("_dump_fr_trace_json", -1)):
        if entries := [entry for entry in _entries(dump) if not entry["retired"]]:
            return str(entries[place]["profiling_name"])
    return ""


def collective() -> str:
    """The operation that this process waits in, or else was in last between CPUs; "" where unknown."""
    entries = _entries("_dump_fr_trace_json")
    return waiting() or (str(entries[-1]["profiling_name"]) if entries else "")


def _entries(dump: str) -> list[dict[str, Any]]:
    """Of one recorder, oldest first."""
    with suppress(Exception):  # an internal interface: its absence must not hide the error that it explains
        record: dict[str, Any] = json.loads(getattr(c10d, dump)(True, False))
        return sorted(record.get("entries", []), key=lambda entry: int(entry["time_created_ns"]))
    return []


def write(folder: Path, rank: int) -> None:
    """Write gloo's record, where this torch keeps one."""
    with suppress(Exception):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"gloo-rank-{rank}", c10d._dump_fr_trace(True, True, False), durable=False)
