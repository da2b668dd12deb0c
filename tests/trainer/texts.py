"""Documents for tests, in files of every format."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".txt")
WORDS = (
    "der",
    "Hund",
    "läuft",
    "über",
    "走",
    "the",
    "quick",
    "brown",
    "fox",
    "🦊",
    "and",
    "then\nsome",
    "\t",
    "more",
)


def records(count: int, *, seed: int, kinds: bool = False) -> list[dict[str, Any]]:
    """Texts of up to 500 characters; with `kinds`, every third is a question with its answer."""
    chance = random.Random(seed)

    def text() -> str:
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 100)))

    return [
        {"prompt": text(), "answer": text()} if kinds and number % 3 == 2 else {"text": text()}
        for number in range(count)
    ]


def write(path: Path, content: Sequence[Any]) -> None:
    """In the format that the file's name says; .txt becomes a file for each text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".txt":
        for number, record in enumerate(content):
            path.with_name(f"{path.stem}-{number:04d}.txt").write_bytes(record["text"].encode())
        return
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = sorted({key for record in content for key in record})
        table = pyarrow.table({key: [record.get(key) for record in content] for key in columns})
        pyarrow.parquet.write_table(table, path, row_group_size=37)
        return
    lines = "".join(
        json.dumps(record, ensure_ascii=number % 2 == 0) + "\n" for number, record in enumerate(content)
    )
    data = lines.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        import zstandard

        half = len(data) // 2  # two frames, as tools that compress in parallel write
        data = b"".join(zstandard.compress(part) for part in (data[:half], data[half:]))
    path.write_bytes(data)
