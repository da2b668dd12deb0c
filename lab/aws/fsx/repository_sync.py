"""Keeping an associated folder and its bucket alike, as far as the association's policies say so.

AWS imports an object's name at once and its contents when they are read, and exports a file once it is
closed. Here both sides are compared every few seconds; a file that is still being written waits.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from moto.s3.models import FakeBucket, FakeKey, s3_backends

from lab.aws.fsx.state import Association, FileSystem
from lab.aws.world import World

log = logging.getLogger(__name__)
INTERVAL = 2.0
"""Seconds between comparisons."""
SETTLED = 1.0
"""Seconds without a change after which a file counts as closed."""
LARGEST = 256 * 1024**2
"""Bytes: moto keeps objects in temporary files of this process, so larger files stay where they are."""


def split(repository: str) -> tuple[str, str]:
    """Bucket and prefix of s3://bucket/prefix; the prefix ends with a slash unless it is empty."""
    bucket, _, prefix = repository.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/" if prefix else ""


@dataclass
class Follower:
    """Follows one association while it is AVAILABLE; names are relative to its folder and its prefix."""

    world: World
    file_system: FileSystem
    association: Association
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Time of change (ns) and size of each file as last seen."""
    objects: dict[str, str] = field(default_factory=dict)
    """ETag of each object as last seen."""

    @property
    def root(self) -> Path:
        return self.file_system.folder / self.association.path.strip("/")

    def begin(self) -> None:
        """Make the folder, import what is there if the association asks for it, and follow from then on."""
        self.root.mkdir(parents=True, exist_ok=True)
        if self.association.batch_import:
            for name, key in self._keys():
                self._write(name, key)
        self.objects = {name: key.etag for name, key in self._keys()}
        self.files = dict(self._scan())
        self.world.work(f"follow-{self.association.id}", self._follow)

    def _follow(self) -> None:
        while not self.world.closing.wait(max(0.05, INTERVAL * self.world.pace)):
            if self.association.lifecycle != "AVAILABLE":
                return
            try:
                with self.world.lock:
                    self._import(self._events("AutoImportPolicy"))
                self._export(self._events("AutoExportPolicy"))
            except Exception:  # such as a bucket that is gone: AWS calls it MISCONFIGURED and goes on
                log.exception("association %s", self.association.id)

    def _events(self, policy: str) -> set[str]:
        return set((self.association.s3.get(policy) or {}).get("Events", []))

    def _bucket(self) -> tuple[FakeBucket | None, str]:
        bucket, prefix = split(self.association.repository)
        return s3_backends[self.file_system.account]["aws"].buckets.get(bucket), prefix

    def _keys(self) -> Iterator[tuple[str, FakeKey]]:
        bucket, prefix = self._bucket()
        for name, key in list(bucket.keys.items()) if bucket else []:
            relative = name.removeprefix(prefix)
            if not name.startswith(prefix) or name.endswith("/") or not isinstance(key, FakeKey):
                continue  # another prefix's, a folder, or the marker of a deletion
            if (self.root / relative).resolve().is_relative_to(self.root.resolve()):
                yield relative, key

    def _scan(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                try:
                    status = path.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if path.is_file() and not path.is_symlink():
                    yield str(path.relative_to(self.root)), (status.st_mtime_ns, status.st_size)

    def _write(self, name: str, key: FakeKey) -> None:
        """Put an object's contents into its file."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(key.value)
        status = target.stat()
        self.files[name] = (status.st_mtime_ns, status.st_size)

    def _import(self, events: set[str]) -> None:
        keys = dict(self._keys())
        for name, key in keys.items():
            known = self.objects.get(name)
            if known != key.etag and ("CHANGED" if known else "NEW") in events:
                self._write(name, key)
        for name in set(self.objects) - set(keys):
            if "DELETED" in events:
                (self.root / name).unlink(missing_ok=True)
                self.files.pop(name, None)
        self.objects = {name: key.etag for name, key in keys.items()}

    def _export(self, events: set[str]) -> None:
        found = dict(self._scan())
        for name, state in found.items():
            known = self.files.get(name)
            settled = time.time_ns() - state[0] > SETTLED * 1e9
            if known != state and settled and state[1] <= LARGEST:
                if ("CHANGED" if known else "NEW") in events:
                    self._put(name)
                self.files[name] = state
        for name in set(self.files) - set(found):
            del self.files[name]
            if "DELETED" in events:
                self._delete(name)

    def _put(self, name: str) -> None:
        try:
            content = (self.root / name).read_bytes()
        except FileNotFoundError:
            return
        with self.world.lock:
            bucket, prefix = self._bucket()
            if bucket is not None:
                s3 = s3_backends[self.file_system.account]["aws"]
                key = s3.put_object(bucket.name, prefix + name, content, disable_notification=True)
                self.objects[name] = key.etag

    def _delete(self, name: str) -> None:
        with self.world.lock:
            bucket, prefix = self._bucket()
            if bucket is not None:
                s3_backends[self.file_system.account]["aws"].delete_object(bucket.name, prefix + name)
                self.objects.pop(name, None)
