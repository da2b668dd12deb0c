"""Run a command on a terminal of its own, as a person does, and press keys."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

COLUMNS, LINES = 80, 24


class Terminal:
    """A pseudo-terminal of 80 columns with a command in its foreground. Use it as a context manager."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self._keyboard, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._shown: list[str] = []
        self.process = subprocess.Popen(
            command,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env={**environment, "TERM": "xterm"},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # it becomes the session's terminal
        )
        os.close(screen)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()

    @property
    def text(self) -> str:
        return "".join(self._shown)

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Wait until the text has been printed. Fails, showing all that was, if the command ends or `seconds` pass."""
        deadline = time.monotonic() + seconds
        while text not in self.text:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.text}"
            assert time.monotonic() < deadline, f"no {text!r} within {seconds:g} s: {self.text}"
            time.sleep(0.05)

    def press_ctrl_c(self) -> None:
        os.write(self._keyboard, b"\x03")

    def wait(self, seconds: float = 60) -> int:
        """Wait for the command's end; its exit status. What it printed is in `text`."""
        status = self.process.wait(seconds)
        self._reader.join(5)
        return status

    def close(self) -> None:
        """Close the terminal's window; a second time does nothing."""
        if self._keyboard >= 0:
            keyboard, self._keyboard = self._keyboard, -1
            os.close(keyboard)

    def _read(self) -> None:
        try:
            while self._keyboard >= 0 and (data := os.read(self._keyboard, 65536)):
                self._shown.append(data.decode(errors="replace"))
        except OSError:  # the last program on it has ended, or it was closed
            pass
