"""A plugin's life ends with its engine's."""

from __future__ import annotations

import os
import threading
import time


def die_with_parent() -> None:
    """End this process when its parent does: an engine that was killed can't say goodbye, and gRPC's
    servers ignore SIGTERM."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
