"""Which licences an image holds, from what is installed in it. Python's standard library is enough.

    python -m trainer.licences [--json]

A line for each Python package with the licence that it states and the files that say it in full, and one for each
Debian package with its copyright file. trainer/Dockerfile writes the list to /opt/shardyard/LICENCES.txt.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

DEBIAN = Path("/var/lib/dpkg/status")
TEXT = re.compile(r"(^|/)(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)


class Item(NamedTuple):
    name: str
    version: str
    licence: str
    files: list[str]


def stated(meta: Any) -> str:
    """What a package says of its licence: the expression, else the classifiers, else the first line of the field."""
    expression = meta.get("License-Expression")
    if expression:
        return str(expression)
    classes = [
        line.rpartition(" :: ")[2]
        for line in meta.get_all("Classifier") or []
        if line.startswith("License ::") and line != "License :: OSI Approved"
    ]
    if classes:
        return ", ".join(classes)
    lines = str(meta.get("License") or "").strip().splitlines()
    return lines[0].strip() if lines else "not stated"


def python_packages() -> list[Item]:
    found: dict[str, Item] = {}
    for one in metadata.distributions():
        name = str(one.metadata["Name"])
        texts = [
            str(file) for file in one.files or [] if TEXT.search(str(file)) and ".dist-info/" in str(file)
        ]
        found.setdefault(name.lower(), Item(name, one.version, stated(one.metadata), texts))
    return [found[name] for name in sorted(found)]


def debian_packages(status: Path = DEBIAN) -> list[Item]:
    """None where the image isn't Debian's or Ubuntu's."""
    if not status.is_file():
        return []
    found = []
    for paragraph in status.read_text(errors="replace").split("\n\n"):
        name = re.search(r"^Package: (\S+)", paragraph, re.MULTILINE)
        version = re.search(r"^Version: (\S+)", paragraph, re.MULTILINE)
        if name and version and "\nStatus: install ok installed" in paragraph:
            path = f"/usr/share/doc/{name[1]}/copyright"
            found.append(Item(name[1], version[1], "see its file", [path]))
    return sorted(found)


def main(arguments: list[str]) -> int:
    if set(arguments) - {"--json"}:
        print(__doc__)
        return 0 if set(arguments) & {"-h", "--help"} else 2
    kinds = {"Python packages": python_packages(), "Debian packages": debian_packages()}
    if arguments:
        print(
            json.dumps({kind: [item._asdict() for item in items] for kind, items in kinds.items()}, indent=1)
        )
        return 0
    for kind, items in kinds.items():
        print(f"{kind}: {len(items)}")
        for name, version, licence, files in items:
            print(f"  {name} {version}: {licence}" + (f" ({', '.join(files)})" if files else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
