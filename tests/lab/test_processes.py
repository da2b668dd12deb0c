"""The lab signals only what it started, whatever the kernel did with the numbers since."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import processes
from lab.settings import Lab
from tests.waiting import eventually


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(name="unit", cache=tmp_path / "cache", state=tmp_path / "state")


def sleeper(lab: Lab, name: str = "sleeper") -> processes.Process:
    return processes.spawn(lab, name, [sys.executable, "-c", "import time; time.sleep(60)"])


def test_spawn_records_and_stop_forgets(lab: Lab) -> None:
    process = sleeper(lab)
    assert process.alive()
    assert processes.find(lab, "sleeper") == process
    processes.stop(process)
    assert not process.alive()
    assert processes.recorded(lab) == []


def test_stop_takes_the_whole_group(lab: Lab) -> None:
    script = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    process = processes.spawn(lab, "parent", [sys.executable, "-c", script])
    log = lab.logs / "parent.log"
    child = int(eventually(lambda: log.read_text().strip()))
    assert processes.start_time(child) is not None
    processes.stop(process)
    eventually(lambda: processes.start_time(child) is None)


def test_a_process_that_ignores_sigterm_is_killed(lab: Lab) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('ready', flush=True); time.sleep(60)"
    )
    process = processes.spawn(lab, "stubborn", [sys.executable, "-c", script])
    eventually(lambda: "ready" in (lab.logs / "stubborn.log").read_text())
    processes.stop(process, grace=0.2)
    assert not process.alive()


def test_a_number_that_was_given_to_another_process_is_never_signalled(lab: Lab) -> None:
    """The record says: process N, started then. The kernel has since given N to somebody else."""
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        lab.run.mkdir(parents=True)
        started = processes.start_time(bystander.pid)
        assert started is not None
        (lab.run / "old.json").write_text(json.dumps({"pid": bystander.pid, "started": started - 1}))
        assert processes.find(lab, "old") is None
        assert processes.stop_all(lab) == ["old"]
        assert bystander.poll() is None
        assert processes.recorded(lab) == []
    finally:
        bystander.kill()
        bystander.wait()


def test_a_record_cut_off_by_a_kill_is_skipped(lab: Lab) -> None:
    lab.run.mkdir(parents=True)
    (lab.run / "half.json").write_text('{"pid": 1')
    assert processes.recorded(lab) == []


def test_stop_all_goes_by_prefix_newest_first(lab: Lab) -> None:
    for name in ("cluster-a-etcd", "cluster-a-apiserver", "aws"):
        sleeper(lab, name)
        time.sleep(0.02)  # start times are counted in hundredths of a second
    assert processes.stop_all(lab, "cluster-a-") == ["cluster-a-apiserver", "cluster-a-etcd"]
    assert [p.name for p in processes.recorded(lab)] == ["aws"]
    processes.stop_all(lab)


def test_a_missing_program_is_an_error_that_names_it(lab: Lab) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        processes.spawn(lab, "x", ["/no-such-program"])


def test_start_time_of_nobody() -> None:
    assert processes.start_time(2**22 + 1) is None
    assert processes.start_time(os.getpid()) is not None
