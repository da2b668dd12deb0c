"""Plugins that outlived a killed engine.

Our own plugins end with their engine (lab/providers). Pulumi's dynamic provider doesn't: nobody tells it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from lab import processes
from lab.cli.environment import environment
from lab.settings import Lab

PLUGINS = ("pulumi-resource-", "pulumi-language-")
"""How the programs of plugins are called."""
DYNAMIC = "pulumi.dynamic"
"""The Python module below the script of the dynamic provider."""


def strays(lab: Lab) -> list[int]:
    """Process ids of the lab's plugins whose engine is gone.

    A plugin has the lab's own PULUMI_HOME, and so has the engine that started it: a plugin whose parent hasn't is an
    orphan, and so are the plugin processes below it. A shell with `make env`'s variables is no plugin.
    """
    members: dict[int, tuple[int, list[str]]] = {}
    for pid in processes.having("PULUMI_HOME", environment(lab)["PULUMI_HOME"]):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            members[pid] = int(processes.stat(pid)[1]), command
    plugins = {pid for pid, (_, command) in members.items() if _is_plugin(command)}
    found = {pid for pid in plugins if members[pid][0] not in members}
    while more := {pid for pid in plugins - found if members[pid][0] in found}:
        found |= more
    return sorted(found)


def _is_plugin(command: list[str]) -> bool:
    """A program, or the script that an interpreter runs; not any command that mentions one."""
    return DYNAMIC in command or any(Path(word).name.startswith(PLUGINS) for word in command[:2])


def end(lab: Lab) -> list[int]:
    """Kill them; they hold nothing that needs an orderly end. Returns their process ids."""
    gone = strays(lab)
    processes.kill(gone)
    return gone
