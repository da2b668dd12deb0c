"""An informer: it lists and watches one kind of object, and calls a function for every object and every change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

import urllib3

from lab.nodes.client.api import ApiClient, ApiError, Object

log = logging.getLogger(__name__)
Handler = Callable[[str, Object], None]
"""Called with ADDED, MODIFIED or DELETED and the object."""
_RETRY_SECONDS = 1.0


class Informer:
    """A thread that lists and watches the objects of one path until it is stopped.

    After a lost connection it lists again: objects that were deleted meanwhile are reported as DELETED, the
    others as ADDED once more, so handlers must be idempotent. An exception in a handler is logged.
    """

    def __init__(
        self, client: ApiClient, path: str, handle: Handler, query: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._path = path
        self._handle = handle
        self._query = dict(query or {})
        self._stopped = threading.Event()
        self._known: dict[str, Object] = {}
        self._thread = threading.Thread(target=self._run, name=f"informer {path}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Report nothing more. The thread ends with its connection, when the API server ends."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._list_and_watch()
            except ApiError as error:
                if error.status != 410:  # 410: the version is too old, so list again
                    log.warning("%s: %s", self._path, error)
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                if not self._stopped.is_set():
                    log.warning("%s: %s", self._path, error)
            self._stopped.wait(_RETRY_SECONDS)

    def _list_and_watch(self) -> None:
        answer = self._client.get(self._path, self._query)
        listed = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in set(self._known) - set(listed):
            self._report("DELETED", self._known[uid])
        for item in listed.values():
            self._report("ADDED", item)
        version = answer["metadata"]["resourceVersion"]
        while not self._stopped.is_set():
            for event in self._client.watch(self._path, version, self._query):
                version = event["object"]["metadata"]["resourceVersion"]
                self._report(event["type"], event["object"])

    def _report(self, kind: str, item: Object) -> None:
        if self._stopped.is_set():
            return
        if kind == "DELETED":
            self._known.pop(item["metadata"]["uid"], None)
        else:
            self._known[item["metadata"]["uid"]] = item
        try:
            self._handle(kind, item)
        except Exception:
            log.exception("%s: %s %s", self._path, kind, item["metadata"]["name"])
