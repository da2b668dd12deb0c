"""`make status`: what runs, how far the job is, and what to type next."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lab import processes
from lab.cli import job as jobs
from lab.cli import lab_state, lock, running_lab, services
from lab.cli.errors import LabError
from lab.cli.lab_state import Condition
from lab.cli.output import columns, line
from lab.cli.stack import Stack
from lab.cli.up import STACK, job_of
from lab.settings import Lab

ANEW = "`make up` clears it away and begins anew, `make down` only clears it away"
NEXT = {
    Condition.ABSENT: "`make up`",
    Condition.READY: '`eval "$(make env)" && kubectl get pods -A`, or `make down`',
    Condition.CHANGING: "wait for it, and look again with `make status`",
    Condition.CUT_SHORT: ANEW,
    Condition.INCOMPLETE: ANEW,
    Condition.EMULATOR_DEAD: ANEW,
}


def status(lab: Lab) -> dict[str, Any]:
    """The lab's state as plain data; never raises because something is down."""
    condition, other, holder = lab_state.condition(lab), running_lab.other(lab), lock.holder(lab)
    if holder and holder.state == str(lab.state):
        condition = Condition.CHANGING
    running = [
        {"name": process.name, "pid": process.pid, "alive": process.alive()}
        for process in processes.recorded(lab)
    ]
    found: dict[str, Any] = {
        "lab": lab.name,
        "up": services.healthy(lab),
        "condition": str(condition),
        "aws": lab.aws_endpoint,
        "registry": lab.registry,
        "state": str(lab.state),
        "processes": sorted(running, key=lambda process: str(process["name"])),
        "problem": None if condition.usable else lab_state.explain(lab, condition),
        "at_work": str(holder) if holder else None,
        "other": running_lab.describe(lab, other) if other else None,
        "next": f"`{running_lab.variables(lab, other)} make status`" if other else NEXT[condition],
    }
    return {**found, **_stack(lab)} if found["up"] else found


def _stack(lab: Lab) -> dict[str, Any]:
    """Outputs, nodes and job, as far as there are any yet."""
    found: dict[str, Any] = {}
    try:
        found["outputs"] = Stack(lab, STACK).outputs()
        job = job_of(lab, found["outputs"])
        if not (lab.state / "kubeconfig").exists():  # `make up` writes it when the stack is complete
            return found
        nodes = jobs.kubectl(lab, "get", "nodes", "--no-headers")
        found["nodes"] = nodes.stdout.strip().splitlines()
        if nodes.returncode:
            found["cluster_problem"] = nodes.stderr.strip().rpartition("\n")[2]
        elif job:
            condition = jobs.state(lab, job)
            found["job"] = {"name": job.name, "state": condition, "progress": jobs.line(job, condition)}
    except (LabError, FileNotFoundError) as error:
        found["stack_problem"] = str(error)
    return found


def show(found: dict[str, Any], console: Console) -> None:
    """The same for people."""
    name = f"lab {found['lab']!r}"
    if found["up"]:
        line(console, f"{name} is up: AWS {found['aws']}, registry {found['registry']}")
    else:
        line(console, f"{name} is down", "yellow")
    for key in ("at_work", "problem", "other"):
        if found[key] and not (key == "problem" and found["at_work"]):
            line(console, found[key], "yellow")
    table = [
        (one["name"], str(one["pid"]), "running" if one["alive"] else "dead") for one in found["processes"]
    ]
    columns(console, [("PROCESS", "PID", "STATE"), *table] if table else [])
    for node in found.get("nodes", []):
        line(console, node)
    for key, what in (("stack_problem", "no outputs yet"), ("cluster_problem", "the cluster doesn't answer")):
        if key in found:
            line(console, f"{what}: {found[key]}", "yellow")
    if "job" in found:
        line(console, f"{found['job']['progress']} ({found['job']['state'].lower()})")
    line(console, f"Next: {found['next']}")


def why_down(lab: Lab) -> str | None:
    """That the lab is down, why and what to type next; None if its emulator answers."""
    if services.healthy(lab):
        return None
    other, condition = running_lab.other(lab), lab_state.condition(lab)
    reason = "" if condition.usable else f" ({lab_state.explain(lab, condition)})"
    if other:
        return f"lab {lab.name!r} is down, but {running_lab.describe(lab, other)}"
    return f"lab {lab.name!r} is down{reason}, so nothing answers at these addresses yet. Next: {NEXT[condition]}"
