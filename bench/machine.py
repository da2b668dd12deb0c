"""Which machine this is, and how busy: figures mean nothing without."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "transformers", "accelerate", "torchtune", "webdataset", "litdata", "numpy")


def facts() -> dict[str, Any]:
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": [round(value, 1) for value in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def describe(facts: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items() if number)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, "
        f"Python {facts['python']}, load {facts['load'][0]} / {facts['load'][1]} / {facts['load'][2]}\n{packages}"
    )


def _field(file: str, name: str) -> str:
    path = Path(file)
    if not path.exists():
        return ""
    found = [
        line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith(name)
    ]
    return found[0] if found else ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
