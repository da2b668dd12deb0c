"""The image registry of the local stack: Debian's docker-registry, started and stopped here.

It listens on loopback and, once the lab's bridge is there, on the bridge's address too, for the nodes: two
processes on one folder, because the program takes one address and nothing of the lab listens on all of them.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from lab import processes
from lab.ports import can_bind
from lab.settings import LOOPBACK, Lab
from lab.toolchain.errors import ToolchainError

START_SECONDS = 20.0
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
"""What a manifest may be; without it a registry answers in a form of 2014, under another digest."""


def folder(lab: Lab) -> Path:
    return lab.state / "registry"


def listeners(lab: Lab) -> dict[str, str]:
    """Process name → the address that it should listen on now."""
    found = {"registry": LOOPBACK}
    if can_bind(str(lab.gateway), port=0):  # the bridge is there, and has its address
        found["registry-bridge"] = str(lab.gateway)
    return found


def start(lab: Lab) -> None:
    """Start what isn't running; returns once it answers. Call it again when the bridge has come up.

    Raises ToolchainError if the port is taken, the program is missing, or it doesn't come up.
    """
    if not any(processes.find(lab, name) for name in listeners(lab)):
        collect_garbage(lab)
    for name, address in listeners(lab).items():
        running = processes.find(lab, name)
        if running and healthy(lab, address):
            continue
        if running:
            processes.stop(running)
        _start(lab, name, address)


def stop(lab: Lab) -> None:
    """Stop it, on every address. Images stay in its folder."""
    processes.stop_all(lab, "registry", grace=5)


def healthy(lab: Lab, address: str = LOOPBACK) -> bool:
    """Whether the registry answers on that address."""
    try:
        ask(lab, "GET", "/v2/", address=address, seconds=2)
    except ToolchainError:
        return False
    return True


def digest(lab: Lab, name: str, reference: str) -> str | None:
    """The digest of an image by its name and tag (or digest); None if the registry hasn't got it.

    Raises ToolchainError if the registry can't be asked.
    """
    try:
        headers = ask(lab, "HEAD", f"/v2/{name}/manifests/{reference}", headers={"Accept": MANIFESTS})
    except Missing:
        return None
    return headers["Docker-Content-Digest"]


class Missing(ToolchainError):
    """The registry has no such thing."""


def ask(
    lab: Lab,
    method: str,
    path: str,
    body: bytes | IO[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    address: str = LOOPBACK,
    seconds: float = 60,
) -> Mapping[str, str]:
    """One request, straight to the registry whatever proxies are configured. Returns the answer's headers.

    Raises Missing for 404, ToolchainError for any other error.
    """
    connection = http.client.HTTPConnection(address, lab.registry_port, timeout=seconds)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        message = f"the image registry on {lab.registry} doesn't answer ({error!r}); its log: {_log(lab)}"
        raise ToolchainError(message) from error
    finally:
        connection.close()
    if answer.status == 404:
        raise Missing(f"{path}: not in the image registry on {lab.registry}")
    if answer.status >= 400:
        raise ToolchainError(
            f"the image registry on {lab.registry} answers {answer.status} to {method} {path}: {text}"
        )
    return dict(answer.headers.items())


def collect_garbage(lab: Lab) -> None:
    """Remove layers that no image has any more. Only while nothing listens: a push under way would lose its layers."""
    if (folder(lab) / "docker").exists():
        subprocess.run([*_program(lab), "garbage-collect", _configure(lab, LOOPBACK)], capture_output=True)


def _start(lab: Lab, name: str, address: str) -> None:
    if not can_bind(address, lab.registry_port):
        raise ToolchainError(
            f"port {lab.registry_port} on {address}, the image registry's, is in use: end the program that has it "
            f"(`ss -ltnp sport = :{lab.registry_port}` names it), or move all ports with SHARDYARD_PORT_BASE"
        )
    process = processes.spawn(lab, name, [*_program(lab), "serve", _configure(lab, address)])
    deadline = time.monotonic() + START_SECONDS
    while not healthy(lab, address):
        if not process.alive() or time.monotonic() > deadline:
            processes.stop(process)
            log = _log(lab, name)
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise ToolchainError(
                f"the image registry did not come up on {address}; the end of {log}:\n{tail}"
            )
        time.sleep(0.05)


def configuration(storage: Path, address: str, port: int) -> dict[str, object]:
    """docker-registry's configuration (its own format, version 0.1).

    No cache of blob descriptors: with one, the process on the bridge would go on naming what the process on
    loopback has deleted. No debug port.
    """
    return {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(storage)},
            "delete": {"enabled": True},
            "maintenance": {"uploadpurging": {"enabled": False}},
        },
        "http": {"addr": f"{address}:{port}", "secret": secrets.token_hex()},  # signs the steps of an upload
    }


def _configure(lab: Lab, address: str) -> Path:
    folder(lab).mkdir(parents=True, exist_ok=True)
    path = folder(lab) / f"{address}.yml"
    path.write_text(
        json.dumps(configuration(folder(lab), address, lab.registry_port), indent=1)
    )  # JSON is YAML too
    return path


def _program(lab: Lab) -> list[str | Path]:
    """The command, without the user's REGISTRY_… variables: each would override a line of the configuration."""
    program = lab.bin / "docker-registry"
    if not program.exists():
        raise ToolchainError(f"{program} is missing: `make up` unpacks it from Debian's package")
    unset = [part for name in sorted(os.environ) if name.startswith("REGISTRY_") for part in ("-u", name)]
    return ["env", *unset, program]


def _log(lab: Lab, name: str = "registry") -> Path:
    return lab.logs / f"{name}.log"
