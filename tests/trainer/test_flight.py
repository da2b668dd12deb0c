"""The flight recorder: on by default, and its record in the run's own folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trainer import flight


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("TORCH_FR_", "TORCH_NCCL_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", dict(os.environ))


@pytest.mark.parametrize(
    ("version", "size", "file"),
    [
        ("2.9.1+cu128", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
        ("2.15.0", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"),
    ],
)
def test_it_is_on_and_writes_to_the_output_folder(
    version: str, size: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.__version__", version)
    flight.switch_on(tmp_path / "flight")
    assert int(os.environ[size]) > 0
    assert os.environ[file] == str(tmp_path / "flight" / "nccl-rank-")
    assert os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "3"


def test_the_first_operation_that_is_not_done_is_the_one_that_all_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As NCCL's recorder words it: later ones are queued behind it."""
    names = ["nccl:all_gather", "nccl:reduce_scatter", "nccl:all_reduce"]
    entries = [
        {"profiling_name": name, "time_created_ns": str(number), "retired": number == 0}
        for number, name in enumerate(names)
    ]
    record = json.dumps({"entries": entries[::-1]}).encode()
    monkeypatch.setattr(flight.c10d, "_dump_nccl_trace_json", lambda *_: record, raising=False)
    assert flight.waiting() == flight.collective() == "nccl:reduce_scatter"

    monkeypatch.setattr(
        flight.c10d, "_dump_nccl_trace_json", lambda *_: b'{"version": "2.10"}', raising=False
    )
    monkeypatch.setattr(flight.c10d, "_dump_fr_trace_json", lambda *_: record, raising=False)
    assert flight.waiting() == "nccl:all_reduce"


def test_what_a_person_set_is_left_alone(tmp_path: Path) -> None:
    os.environ["TORCH_FR_BUFFER_SIZE"] = "7"
    flight.switch_on(tmp_path)
    assert os.environ["TORCH_FR_BUFFER_SIZE"] == "7"
