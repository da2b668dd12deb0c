"""DCP's writer and reader, for checkpoints on S3.

The reader fetches a file in the parts it was uploaded in and checks each against its checksum as it arrives, so that
every byte travels once. The next part is on its way while one is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemBase

from trainer.checkpoint.commits import Damaged, File
from trainer.objects import Address, Missing, Objects

PARTS_IN_MEMORY = 3
"""Of one file: DCP reads the end of a tensor's record before its beginning."""


@dataclasses.dataclass
class _Prefix:
    """What DCP's writer puts before the number of a process's file."""

    prefix: str


class Spread(dcp.FileSystemWriter):
    """Writes one file per process, into a folder that `spread` names; DCP's metadata says which."""

    def __init__(self, folder: Path, spread: Callable[[int], str], **settings: Any) -> None:
        super().__init__(folder, single_file_per_rank=True, sync_files=False, **settings)
        self._spread = spread

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        return [
            dataclasses.replace(plan, storage_data=_Prefix(f"{self._spread(rank)}/__{rank}_"))
            for rank, plan in enumerate(plans)
        ]


class Stream(io.RawIOBase):
    """One file on S3, to read and to seek in. Raises Damaged where it differs from its record."""

    def __init__(self, objects: Objects, key: str, name: str, file: File, pool: ThreadPoolExecutor) -> None:
        super().__init__()
        self._objects, self._key, self._name, self._file, self._pool = objects, key, name, file, pool
        self._at, self._last = 0, -1
        self._parts: OrderedDict[int, Future[bytes]] = OrderedDict()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._at < self._file.size:
            number, offset = divmod(self._at, self._file.part_bytes)
            piece = memoryview(self._part(number))[offset : offset + len(view) - done]
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._at += len(piece)
        return done

    def _part(self, number: int) -> bytes:
        wanted = [number]
        if number == self._last + 1 and number + 1 < len(self._file.parts):
            wanted.append(number + 1)  # read in order so far: it will be asked for next
        self._last = number
        for one in wanted:
            if one not in self._parts:
                self._parts[one] = self._pool.submit(self._fetch, one)
        self._parts.move_to_end(number)
        while len(self._parts) > PARTS_IN_MEMORY:
            self._parts.popitem(last=False)[1].cancel()
        return self._parts[number].result()

    def _fetch(self, number: int) -> bytes:
        start = number * self._file.part_bytes
        length = min(self._file.part_bytes, self._file.size - start)
        try:
            data = self._objects.read(self._key, start, length)
        except Missing as error:
            raise Damaged(f"{self._name} is missing") from error
        if hashlib.sha256(data).hexdigest() != self._file.parts[number]:
            raise Damaged(f"{self._name} fails its checksum between bytes {start} and {start + length}")
        return data


class _Files(FileSystemBase):
    """As much of a file system as DCP's reader asks for."""

    def __init__(self, objects: Objects, address: Address, files: dict[str, File]) -> None:
        self._objects, self._address, self._files = objects, address, files
        self._pool = ThreadPoolExecutor(2, "read-ahead")

    @contextmanager
    def create_stream(self, path: str, mode: str) -> Iterator[io.IOBase]:
        if path not in self._files:
            raise Damaged(f"{path} is not in the commit")
        key = self._address.key(path)
        with Stream(self._objects, key, path, self._files[path], self._pool) as stream:
            yield stream

    def concat_path(self, path: str, suffix: str) -> str:
        return f"{path}/{suffix}" if path else suffix

    def init_path(self, path: Any) -> str:
        return ""  # names are those of the commit

    def exists(self, path: Any) -> bool:
        return path in self._files

    def rename(self, path: Any, new_path: Any) -> None:
        raise NotImplementedError("for reading only")

    def mkdir(self, path: Any) -> None:
        raise NotImplementedError("for reading only")

    def rm_file(self, path: Any) -> None:
        raise NotImplementedError("for reading only")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


class Reader(dcp.FileSystemReader):
    """DCP's reader on top of the above."""

    def __init__(self, objects: Objects, address: Address, files: dict[str, File]) -> None:
        super().__init__("")
        self.fs = _Files(objects, address, files)
        self.path = self.fs.init_path("")

    def prepare_local_plan(self, plan: Any) -> Any:
        """In the order in which the bytes lie."""

        def place(item: Any) -> tuple[str, int]:
            there = self.storage_data[item.storage_index]
            return there.relative_path, there.offset

        plan.items.sort(key=place)
        return plan
