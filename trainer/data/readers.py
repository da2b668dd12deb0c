"""Files of each format, read record by record in a stream: no file is ever held as a whole, but for .txt.

.txt                            one document
.jsonl, .jsonl.gz, .jsonl.zst   one document a line
.parquet                        one document a row; only the columns that make documents are read

A plain .jsonl file and a .parquet file can be cut into slices of bytes: a line belongs to the slice that it begins
in, a row group to the slice that holds its middle. So slices follow from a file's size alone, and whoever works on
one needs to read nothing else.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from trainer import exits
from trainer.data import documents
from trainer.data.documents import TEXT, Document, Unfit
from trainer.data.places import File, Place

SUFFIXES = (".txt", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
CAN_BE_CUT = (".jsonl", ".parquet")
ROWS_AT_ONCE = 1024
BLOCK = 1 << 20
"""Bytes that are decompressed at a time."""

Records = Iterator[tuple[int, Any]]
"""Number and content of each. Lines are counted from the slice's first, rows from the file's, both from 1 on."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes `first` to `last` of a file; all of it for formats that can't be cut."""

    file: File
    first: int
    last: int


@dataclass
class Tally:
    """What went through a reader."""

    bytes: int = 0
    """Of the source, as stored."""
    skipped: int = 0
    """Bad records."""


@dataclass
class Reader:
    """Documents of a place's files."""

    place: Place
    text: str = TEXT
    """Key or column of plain texts."""
    skip_bad: bool = False
    """Count bad records and go on, where otherwise the first is an error."""
    render: Callable[[Document], Document] = lambda document: document
    """What is done to each document. It may raise documents.Unfit: the record is bad then."""
    tally: Tally = field(default_factory=Tally)

    def documents(self, slice_: Slice) -> Iterator[Document]:
        """Raises exits.Failure, naming file and line or row, for a record that is no document or can't be rendered,
        and for a file that is damaged."""
        name = slice_.file.name
        try:
            with self.place.open(name) as raw:
                parse, records = self._format(slice_, raw)
                for number, content in records:
                    try:
                        document = self.render(documents.document(parse(content), self.text))
                    except (ValueError, KeyError, TypeError) as error:
                        if not self.skip_bad:
                            line = number + self._before(slice_)
                            raise exits.Failure(
                                f"{self.place.url}/{name}:{line}: {_reason(error)}", exits.CONFIG
                            ) from error
                        self.tally.skipped += 1
                        continue
                    yield document
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise exits.Failure(
                f"{self.place.url}/{name}: damaged or cut off ({error})", exits.CONFIG
            ) from error

    def _format(self, slice_: Slice, raw: BinaryIO) -> tuple[Callable[[Any], Any], Records]:
        """How to read one record of such a file, and the records."""
        name = slice_.file.name
        if name.endswith(".parquet"):
            return _without_nothing, self._rows(slice_, raw)
        if name.endswith(".txt"):
            return lambda content: {self.text: content.decode("utf-8-sig")}, self._whole(raw)
        if name.endswith(".gz"):
            return _json, self._lines(gzip.GzipFile(fileobj=raw), raw, 0, None)
        if name.endswith(".zst"):
            return _json, self._lines(io.BufferedReader(_Zstd(raw), BLOCK), raw, 0, None)
        return _json, self._lines(raw, raw, slice_.first, slice_.last)

    def _whole(self, raw: BinaryIO) -> Records:
        content = raw.read()
        self.tally.bytes += len(content)
        yield 1, content

    def _lines(
        self, stream: io.BufferedIOBase | BinaryIO, raw: BinaryIO, first: int, last: int | None
    ) -> Records:
        """`raw` tells how much of the file has been read, whatever `stream` makes of it."""
        position, read = 0, first
        if first:
            stream.seek(first - 1)
            position = first - 1 + len(stream.readline())
        number = 0
        while last is None or position < last:
            line = stream.readline()
            if not line:
                break
            position += len(line)
            number += 1
            if not number % ROWS_AT_ONCE:
                self.tally.bytes, read = self.tally.bytes + raw.tell() - read, raw.tell()
            if line.strip():
                yield number, line
        self.tally.bytes += (raw.tell() if last is None else last) - read

    def _rows(self, slice_: Slice, raw: BinaryIO) -> Records:
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(raw)
            columns = [
                column for column in file.schema_arrow.names
                if column in ("messages", "prompt", "answer", self.text)
            ]  # fmt: skip
            if not columns:
                raise exits.Failure(
                    f"{self.place.url}/{slice_.file.name}: no column {self.text}, prompt or messages, only "
                    f"{', '.join(file.schema_arrow.names)}",
                    exits.CONFIG,
                )
            row = 0
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                size, start = _extent(group)
                if not slice_.first <= min(start + size // 2, slice_.file.size - 1) < slice_.last:
                    row += group.num_rows
                    continue
                for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=[number], columns=columns):
                    for record in batch.to_pylist():
                        row += 1
                        yield row, record
                self.tally.bytes += size
        except (pyarrow.ArrowException, OSError) as error:
            raise exits.Failure(
                f"{self.place.url}/{slice_.file.name}: damaged or no Parquet file ({error})", exits.CONFIG
            ) from error

    def _before(self, slice_: Slice) -> int:
        """Lines of the file before the slice: read through only to say where an error is."""
        if not slice_.first or slice_.file.name.endswith(
            ".parquet"
        ):  # rows are counted from the file's first
            return 0
        with self.place.open(slice_.file.name) as file:
            lines, left = 0, slice_.first - 1
            while left and (block := file.read(min(left, BLOCK))):
                lines, left = lines + block.count(b"\n"), left - len(block)
        return lines + 1


def _reason(error: Exception) -> str:
    if isinstance(error, Unfit):
        return str(error)
    return f"expected a text, a prompt and an answer, or messages ({error!r})"


def _json(line: bytes) -> Any:
    return json.loads(line.decode("utf-8-sig"))


def _extent(group: Any) -> tuple[int, int]:
    """Compressed bytes of a Parquet row group, and where they begin."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    starts = [
        chunk.dictionary_page_offset if chunk.dictionary_page_offset else chunk.data_page_offset
        for chunk in chunks
    ]
    return sum(chunk.total_compressed_size for chunk in chunks), min(starts)


def _without_nothing(record: dict[str, Any]) -> dict[str, Any]:
    """A row of a file that mixes the kinds of record has nulls in the columns of the others."""
    return {key: value for key, value in record.items() if value is not None}


class _Zstd(io.RawIOBase):
    """zstandard's own reader ends silently where a file is cut off; this one raises EOFError."""

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._raw, self._frame, self._begun = raw, self._new(), False
        self._out = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._out:
            rest = self._frame.unused_data if self._begun and self._frame.eof else b""
            if self._begun and self._frame.eof:
                self._frame, self._begun = self._new(), False
            block = rest or self._raw.read(BLOCK)
            if not block:
                if self._begun:
                    raise EOFError("the last frame has no end")
                return 0
            try:
                self._out, self._begun = memoryview(self._frame.decompress(block)), True
            except self._error as error:
                raise EOFError(str(error)) from error
        count = min(len(buffer), len(self._out))
        buffer[:count], self._out = self._out[:count], self._out[count:]
        return count
