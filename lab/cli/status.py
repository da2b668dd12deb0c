"""`make status`: what runs, on which address, and how far the job is."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from lab import processes
from lab.cli import job as jobs
from lab.cli import world
from lab.cli.errors import LabError
from lab.cli.stack import Stack
from lab.cli.up import STACK, job_of
from lab.settings import Lab


def status(lab: Lab) -> dict[str, Any]:
    """The lab's state as plain data; never raises because something is down."""
    running = [{"name": p.name, "pid": p.pid, "alive": p.alive()} for p in processes.recorded(lab)]
    found: dict[str, Any] = {
        "lab": lab.name,
        "up": world.healthy(lab),
        "aws": lab.aws_endpoint,
        "registry": lab.registry,
        "state": str(lab.state),
        "processes": sorted(running, key=lambda process: str(process["name"])),
        "problem": world.unusable(lab),
    }
    if found["up"]:
        try:
            outputs = Stack(lab, STACK).outputs()
        except LabError as error:
            return {**found, "problem": str(error)}
        job = job_of(lab, outputs)
        found["outputs"] = outputs
        found["nodes"] = _nodes(lab)
        if job:
            condition = jobs.state(lab, job)
            found["job"] = {"name": job.name, "state": condition, "progress": jobs.line(job, condition)}
    return found


def _nodes(lab: Lab) -> list[str]:
    result = jobs.kubectl(lab, "get", "nodes", "--no-headers")
    return result.stdout.strip().splitlines()


def show(found: dict[str, Any], console: Console) -> None:
    """The same for people."""
    if not found["up"]:
        console.print(f"lab {found['lab']!r} is down" + (f": {found['problem']}" if found["problem"] else ""))
        return
    table = Table(
        title=f"lab {found['lab']}: AWS {found['aws']}, registry {found['registry']}", title_justify="left"
    )
    for heading in ("process", "pid", "state"):
        table.add_column(heading)
    for process in found["processes"]:
        state = "running" if process["alive"] else "[red]dead[/red]"
        table.add_row(process["name"], str(process["pid"]), state)
    console.print(table)
    for node in found.get("nodes", []):
        console.print(node)
    job = found.get("job")
    if job:
        console.print(f"{job['progress']} ({job['state'].lower()})")
