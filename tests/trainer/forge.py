"""Starts of processes that cost no imports: one process has torch and transformers loaded, and forks the ranks.

    python -m tests.trainer.forge

Reads an order a line, a JSON object, and answers each with a line:

    {"job": file, "start": 3, "world": 2, "folder": …, "log": file, "faults": {…}}  ->  {"statuses": […], "stuck": […]}
    {"module": name, "arguments": […], "world": 4, "log": file, "environment": {…}}  ->  {"statuses": […], "stuck": […]}
    {"compare": [folder, folder]}  ->  {"equal": …, "apart": …}: two checkpoints, to the bit and by relative norm

The first starts the trainer, the second any other module: its `main(arguments)` returns the exit status.

Between this process and the ranks is an agent that does what torchrun's does: it serves the store, and when one rank
ends badly it gives the others `grace` seconds to end by themselves. Ranks are whole processes and die of real signals.
Each rank of the trainer writes what it really put through the model to `folder/ledger-START-RANK`: a line for each
pass, with the step and a digest of each row of tokens.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.ports import free_port

GRACE = 2.0
PATIENCE = 300.0
"""Seconds of a start, after which whoever is left is stuck, unless the order has a `patience` of its own."""
ROLL_CALL_SECONDS = 0.5
OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
"""On files, by the names of Python's audit events."""
LOADED = (
    "torch.distributed.checkpoint.format_utils",
    "transformers.models.byt5.tokenization_byt5",
    "transformers.models.llama.modeling_llama",
    "trainer.run",
    "trainer.health.check",
    "trainer.health.worker",
)


def faults(order: dict[str, Any], rank: int) -> None:
    """What is to happen to this rank, if anything:

    at_step      killed in the forward pass of this step
    at_file      killed before its nth operation on a file under the checkpoints
    everybody    all ranks die with it
    file_bytes   no file can grow beyond this, as on a full disk
    where, what  kill, stop (answers no more) or raise, when it comes to this place
    """
    from trainer import building, loop
    from trainer.checkpoint.sharded import Checkpoints
    from trainer.checkpoint.store import Store
    from trainer.data import opening

    wanted = order.get("faults", {})
    mine = rank == wanted.get("rank", 0)
    ledger = (Path(order["folder"]) / f"ledger-{order['start']}-{rank}").open("a")
    forward = loop.forward

    def die() -> None:
        if wanted.get("everybody"):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def recorded(state: Any, micro: Any, *rest: Any) -> Any:
        if state.model.training:
            step = state.step + 1
            if mine and step == wanted.get("at_step"):
                die()
            rows = [
                hashlib.sha256(row.numpy().tobytes()).hexdigest()[:16]
                for row, targets in zip(micro.inputs, micro.targets, strict=True)
                if (targets >= 0).any()
            ]
            ledger.write(json.dumps([step, rows]) + "\n")
            ledger.flush()
        return forward(state, micro, *rest)

    loop.forward = recorded
    places: dict[str, tuple[Any, str]] = {
        "data": (opening, "folders"), "build": (building, "build"), "load": (Checkpoints, "load_newest"),
        "forward": (loop, "forward"), "evaluate": (loop, "evaluate"), "save": (Store, "finish"),
        "commit": (Checkpoints, "commit"),
    }  # fmt: skip
    if mine and "where" in wanted:
        owner, name = places[wanted["where"]]
        original = getattr(owner, name)

        def struck(*arguments: Any, **keywords: Any) -> Any:
            if name == "forward" and arguments[0].step == 0:  # the first step has a time limit of its own
                return original(*arguments, **keywords)
            if wanted["what"] == "raise":
                raise ArithmeticError("a cosmic ray")
            os.kill(os.getpid(), signal.SIGKILL if wanted["what"] == "kill" else signal.SIGSTOP)
            return original(*arguments, **keywords)

        setattr(owner, name, struck)
    if "file_bytes" in wanted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (wanted["file_bytes"], resource.RLIM_INFINITY))
    if mine and "at_file" in wanted:
        left = wanted["at_file"]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            if event in OPERATIONS and any("/step-" in str(one) for one in arguments[:2]):
                left -= 1
                if left == 0:
                    die()

        sys.addaudithook(count)


def be_rank(order: dict[str, Any], rank: int, port: int) -> int:
    world = str(order["world"])
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True",
        **order.get("environment", {}),
    }  # fmt: skip
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if "module" in order:
        return int(importlib.import_module(order["module"]).main(order["arguments"]))
    from trainer import votes
    from trainer.__main__ import main

    votes.ROLL_CALL_SECONDS = ROLL_CALL_SECONDS
    faults(order, rank)
    return main(["--config", order["job"]])


def be_agent(order: dict[str, Any]) -> dict[str, Any]:
    from torch.distributed import TCPStore

    port = free_port()
    ranks: list[int] = []
    for rank in range(order["world"]):
        child = os.fork()
        if not child:
            code = 1
            try:
                code = be_rank(order, rank, port)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        with suppress(OSError):
            os.setpgid(child, ranks[0] if ranks else child)
        ranks.append(child)
    store = TCPStore(
        "127.0.0.1", port, is_master=True, wait_for_workers=False
    )  # after the forks: it has threads
    statuses: list[int | None] = [None] * len(ranks)
    stuck: list[int] = []
    grace = float(order.get("grace", GRACE))
    deadline = time.monotonic() + float(order.get("patience", PATIENCE))
    failing = False
    wanted = order.get("faults", {})
    hangs = wanted["rank"] if wanted.get("what") == "stop" else None
    while None in statuses:
        time.sleep(0.005)
        for rank, process in enumerate(ranks):
            if statuses[rank] is None:
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    statuses[rank] = os.waitstatus_to_exitcode(status)
                    if statuses[rank] and not failing:
                        failing, deadline = True, time.monotonic() + grace
        if hangs is not None and None not in statuses[:hangs] + statuses[hangs + 1 :]:
            os.kill(ranks[hangs], signal.SIGKILL)
            hangs = None
        if time.monotonic() > deadline:
            stuck = [rank for rank, status in enumerate(statuses) if status is None]
            for rank in stuck:
                os.kill(ranks[rank], signal.SIGKILL)
            deadline = float("inf")
    del store
    return {"statuses": statuses, "stuck": stuck}


def compare(one: str, other: str) -> dict[str, Any]:
    """By the converter that PyTorch brings."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    whole = []
    for folder in (one, other):
        file = f"{folder}.pt"
        dcp_to_torch_save(folder, file)
        whole.append(torch.load(file, weights_only=False)["model"])
        Path(file).unlink()
    ours, theirs = whole
    assert set(ours) == set(theirs)
    return {
        "equal": all(bool(torch.equal(ours[name], theirs[name])) for name in theirs),
        "apart": max(float((ours[name] - value).norm() / value.norm()) for name, value in theirs.items()),
    }


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """Carry out an order in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            result = compare(*order["compare"]) if "compare" in order else be_agent(order)
            os.write(writing, json.dumps(result).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    for module in LOADED:
        importlib.import_module(module)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
