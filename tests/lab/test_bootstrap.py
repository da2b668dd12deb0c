"""The Python environments: made once, by one process, and never half."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from lab import bootstrap
from lab.settings import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("test", tmp_path / "cache", tmp_path / "state")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout whose requirements are one small wheel each, pinned by hash."""
    root = tmp_path / "project"
    for name, package in (
        ("requirements.txt", "alpha"),
        ("lab/requirements.txt", "beta"),
        ("trainer/requirements.txt", "gamma"),
        ("bench/requirements.txt", "delta"),
        ("bench/torchtune.txt", "epsilon"),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{package}==1.0 --hash=sha256:{wheel(tmp_path / 'wheels', package)}\n")
    return root


def wheel(folder: Path, name: str) -> str:
    """Make NAME-1.0 in `folder`; returns its sha256."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f"NAME = {name!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},sha256={_b64(text)},{len(text)}\n" for file, text in files.items())
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in (*files.items(), (f"{info}/RECORD", record + f"{info}/RECORD,,\n")):
            archive.writestr(file, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _b64(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}


def script(lab: Lab, project: Path, call: str) -> list[str]:
    code = (
        "from pathlib import Path; from lab import bootstrap; from lab.settings import Lab\n"
        f"print(bootstrap.{call}(Lab('test', Path({str(lab.cache)!r}), Path('/nowhere')), Path({str(project)!r})))"
    )
    return [sys.executable, "-c", code]


def test_any_requirement_file_changes_the_environment(project: Path) -> None:
    keys = {bootstrap.environment_key(project)}
    for name in (*bootstrap.PROGRAM, bootstrap.TRAINER):
        (project / name).write_text((project / name).read_text() + "# changed\n")
        keys.add(bootstrap.environment_key(project))
    assert len(keys) == 4


def test_the_pods_packages_are_for_the_pods_python(lab: Lab, project: Path) -> None:
    here = bootstrap.trainer_folder(lab, project, bootstrap.PODS)
    other = bootstrap.trainer_folder(lab, project, (3, 13))
    assert other.name == f"{here.name}-py313"
    assert bootstrap.PODS in bootstrap.trainer_folders(lab, project)


def test_packages_for_another_python_are_asked_for_as_such(
    lab: Lab, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "PODS", (3, 10))
    asked: list[list[str]] = []
    bootstrap.install_trainer(lab, project, lambda command, environment: asked.append(command))
    pods, mine = asked
    assert pods[pods.index("--python-version") + 1] == "3.10" and "--only-binary" in pods
    assert "--python-version" not in mine
    for command in asked:
        assert {"--require-hashes", "--no-cache-dir"} <= set(command)
    assert all(folder.exists() for folder in bootstrap.trainer_folders(lab, project).values())


def test_a_failed_installation_leaves_nothing_that_counts(lab: Lab, project: Path) -> None:
    def fails(command: list[str], environment: dict[str, str]) -> None:
        if "pip" in command:
            raise subprocess.CalledProcessError(1, command)

    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.install_trainer(lab, project, fails)
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.virtual_environment(lab, project, fails)
    assert not bootstrap.trainer_folder(lab, project).exists()
    assert not list(lab.cache.glob("venv-*/" + bootstrap.MARKER))


def test_the_link_is_replaced_in_one_step_and_nothing_else_is(tmp_path: Path) -> None:
    link = tmp_path / ".venv"
    bootstrap.link(link, tmp_path / "one")
    bootstrap.link(link, tmp_path / "two")
    assert link.readlink() == tmp_path / "two"
    link.unlink()
    link.mkdir()
    with pytest.raises(bootstrap.BootstrapError, match="in the way"):
        bootstrap.link(link, tmp_path / "one")


def test_a_lock_is_gone_with_its_holder(lab: Lab) -> None:
    code = (
        "import time; from pathlib import Path; from lab import bootstrap; from lab.settings import Lab\n"
        f"with bootstrap.locked(Lab('test', Path({str(lab.cache)!r}), Path('/nowhere')), 'x'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout and holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with bootstrap.locked(lab, "x"):
        pass


def test_an_old_python_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert bootstrap.main() == 2
    assert "Python 3.11 or newer is needed" in capsys.readouterr().err


def test_peers_lie_apart_and_never_half(lab: Lab, project: Path) -> None:
    def fails(command: list[str], environment: dict[str, str]) -> None:
        if "bench/torchtune.txt" in command[-1]:
            raise subprocess.CalledProcessError(1, command)

    asked: list[list[str]] = []
    folder = bootstrap.peers_folder(lab, project)
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.install_peers(lab, project, fails)
    assert not folder.exists()

    for _ in range(2):  # the second time it is there
        bootstrap.install_peers(lab, project, lambda command, environment: asked.append(command))
    assert len(asked) == len(bootstrap.PEERS)
    assert all({"--require-hashes", "--no-deps"} <= set(command) for command in asked)
    assert sorted(path.name for path in folder.iterdir()) == ["requirements", "torchtune"]
    assert not bootstrap.trainer_folder(lab, project).exists()

    for name in (bootstrap.TRAINER, *bootstrap.PEERS):
        (project / name).write_text((project / name).read_text() + "# changed\n")
        assert bootstrap.peers_folder(lab, project) != folder
        folder = bootstrap.peers_folder(lab, project)


@pytest.mark.processes
def test_two_at_once_make_one_environment_and_a_warm_run_is_fast(
    lab: Lab, project: Path, tmp_path: Path
) -> None:
    both = [
        subprocess.Popen(
            script(lab, project, "virtual_environment"),
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    (folder,) = {Path(out.strip()) for out, _ in answers}
    assert sum("Installing" in err for _, err in answers) == 1

    python = folder / "bin/python"
    probe = "import alpha, beta; print(alpha.NAME, beta.NAME)"
    assert subprocess.run([python, "-c", probe], capture_output=True, text=True).stdout == "alpha beta\n"
    assert subprocess.run([folder / "bin/pip", "--version"], capture_output=True).returncode == 0, (
        "a script of it"
    )

    # The trainer's packages come later and are found then.
    assert subprocess.run([python, "-c", "import gamma"], capture_output=True).returncode != 0
    subprocess.run(
        script(lab, project, "install_trainer"), env=environment(tmp_path), check=True, capture_output=True
    )
    done = subprocess.run(
        [python, "-c", "import gamma; print(gamma.__file__)"], capture_output=True, text=True
    )
    assert done.stdout.strip() == str(bootstrap.trainer_folder(lab, project) / "gamma.py")

    # Asked for again, it stays as it is, and pip isn't run.
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = subprocess.run(
        script(lab, project, "virtual_environment"), check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"{folder}\n", "")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.processes
def test_killed_at_any_moment_it_is_made_anew(lab: Lab, project: Path, tmp_path: Path) -> None:
    for pause in (0.3, 1.0, 2.5):
        process = subprocess.Popen(
            script(lab, project, "virtual_environment"),
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(
        script(lab, project, "virtual_environment"), env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    python = Path(done.stdout.strip()) / "bin/python"
    assert subprocess.run([python, "-c", "import alpha, beta"]).returncode == 0


@pytest.mark.processes
def test_a_package_with_another_hash_is_refused(lab: Lab, project: Path, tmp_path: Path) -> None:
    file = project / bootstrap.TRAINER
    file.write_text(f"gamma==1.0 --hash=sha256:{'0' * 64}\n")
    done = subprocess.run(
        script(lab, project, "install_trainer"), env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr
    assert not bootstrap.trainer_folder(lab, project).exists()
