from __future__ import annotations

from pathlib import Path

import pytest

from trainer import exits, versions


def test_what_is_installed_here_is_what_is_locked() -> None:
    assert versions.differences() == []


def test_a_difference_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==0.1 \\\n    --hash=sha256:00\nunknown==1\n")
    (line,) = versions.differences(lock)
    assert line.startswith("numpy is ")
    assert line.endswith("the lock file says 0.1")


def test_an_old_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "installed", lambda: {"torch": "2.8.1+cu128"})
    with pytest.raises(exits.Failure, match=r"torch 2\.8\.1\+cu128 is too old: 2\.9") as caught:
        versions.differences()
    assert caught.value.status == exits.CONFIG
