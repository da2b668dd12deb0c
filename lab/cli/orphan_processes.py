"""Find and end Pulumi plugins whose engine was killed.

Our own plugins end with their engine (lab/providers). Pulumi's language host and its dynamic provider don't.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import psutil

from lab import processes
from lab.cli.environment import environment
from lab.settings import Lab

PLUGINS = ("pulumi-resource-", "pulumi-language-")
"""How the names of plugins' programs begin."""
DYNAMIC = "pulumi.dynamic"
"""The Python module that the dynamic provider's script runs."""


def find(lab: Lab) -> list[int]:
    """Process ids of the lab's plugins whose engine is gone.

    Plugins inherit the lab's own PULUMI_HOME from the engine. A plugin whose parent hasn't got it is therefore an
    orphan, and so are the plugins below it. Shells that have run `eval "$(make env)"` have it too, but are no plugins.
    """
    home = environment(lab)["PULUMI_HOME"]
    members: dict[int, tuple[int, list[str]]] = {}
    for process in psutil.process_iter(["environ", "ppid", "cmdline"]):
        if (process.info["environ"] or {}).get("PULUMI_HOME") == home:
            members[process.pid] = process.info["ppid"], process.info["cmdline"] or []
    plugins = {pid for pid, (_, command) in members.items() if _is_plugin(command)}
    found = {pid for pid in plugins if members[pid][0] not in members}
    while more := {pid for pid in plugins - found if members[pid][0] in found}:
        found |= more
    return sorted(found)


def end(lab: Lab) -> list[int]:
    """Kill them; they hold nothing that needs an orderly end. Returns their process ids."""
    found = find(lab)
    processes.kill(found)
    return found


def _is_plugin(command: Sequence[str]) -> bool:
    """Whether it is a plugin's program, or an interpreter that runs one; not any command that mentions one."""
    if DYNAMIC in command:
        return True
    arguments = list(takewhile(lambda word: word != "-c", command))  # behind -c is a line of shell or Python
    script = next((word for word in arguments[1:] if not word.startswith("-")), "")
    return any(Path(program).name.startswith(PLUGINS) for program in (*arguments[:1], script))
