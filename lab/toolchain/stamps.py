"""Remember what each thing in the cache was made from, so that nothing is made twice.

A stamp is written after the thing itself is in place. Killed in between, the thing is made (or recognised)
again; there is no order in which a half-made thing counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.settings import Lab


@dataclass(frozen=True)
class Output:
    """One file as it was when it was stamped."""

    path: str
    size: int
    modified: int
    """Nanoseconds."""
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Output:
        facts = path.stat()
        return cls(str(path), facts.st_size, facts.st_mtime_ns, file_digest(path))

    def unchanged(self) -> bool:
        try:
            facts = Path(self.path).stat()
        except OSError:
            return False
        return (facts.st_size, facts.st_mtime_ns) == (self.size, self.modified)


@dataclass(frozen=True)
class Stamp:
    """`inputs` is a digest of everything that the outputs depend on; `origin` says how they came about."""

    inputs: str
    outputs: list[Output] = field(default_factory=list)
    origin: str = "built"
    facts: dict[str, str] = field(default_factory=dict)
    """Whatever else the maker wants to read back, such as an image's id."""

    def write(self, lab: Lab, name: str) -> None:
        path = _path(lab, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)


def read(lab: Lab, name: str) -> Stamp | None:
    """The stamp of that name; None if there is none that can be read."""
    try:
        content = json.loads(_path(lab, name).read_text())
        outputs = [Output(**output) for output in content.pop("outputs")]
        return Stamp(outputs=outputs, **content)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def fresh(lab: Lab, name: str, inputs: str) -> bool:
    """Whether the thing was made from these inputs and its files are as they were left."""
    stamp = read(lab, name)
    return (
        stamp is not None and stamp.inputs == inputs and all(output.unchanged() for output in stamp.outputs)
    )


def digest(parts: Iterable[str | bytes]) -> str:
    """One sha256 for a sequence of texts; no two different sequences share it by running together."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def folder_digest(folder: Path) -> str:
    """Changes with the name or the content of any file below `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest(part for path in files for part in (str(path.relative_to(folder)), path.read_bytes()))


def known_digest(lab: Lab, path: Path) -> str:
    """The file's sha256, from a stamp that has it where one does: large binaries need not be read again."""
    for stamp in (lab.cache / "stamps").glob("[!.]*.json"):
        for output in _outputs(lab, stamp.stem):
            if (
                Path(output.path).name == path.name
                and Path(output.path).resolve() == path
                and output.unchanged()
            ):
                return output.sha256
    return file_digest(path)


def _outputs(lab: Lab, name: str) -> list[Output]:
    stamp = read(lab, name)
    return stamp.outputs if stamp else []


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _path(lab: Lab, name: str) -> Path:
    return lab.cache / "stamps" / f"{name}.json"
