"""Whether an image can train, asked as the last step of its build: before a node with GPUs is.

    python -m trainer.smoke [--packages FOLDER]

All Python packages in reach must be those of the lock file, and one step of a tiny Llama must work on the CPU, through
the trainer's own code. Where the node provides the packages there is nothing of theirs in the image, and it says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from trainer import exits, versions

PACKAGES = Path("/opt/shardyard/python")
FROM_NODE = Path("/opt/shardyard/packages-from-node")
"""A base image with this file leaves the packages to the node."""
PROBED = {
    # transformers and torch use these wherever they are installed, without asking for which torch they were built.
    "torchvision": "transformers imports it with every model; built for another torch it ends in "
    "`operator torchvision::nms does not exist`",
    "torchaudio": "transformers imports it with its processors; its library is linked to one torch",
    "torchtext": "its library is linked to one torch",
    "torchdata": "torch.utils.data shares its namespace with it",
    "flash_attn": "transformers takes its kernels for attention; its library is linked to one torch",
    "flash_attn_interface": "transformers takes its kernels for attention; its library is linked to one torch",
    "xformers": "its library is linked to one torch, and it replaces torch's own operators",
    "apex": "transformers takes its norms in the place of torch's; its library is linked to one torch",
    "transformer_engine": "transformers and accelerate take its layers; its library is linked to one torch",
    "deepspeed": "transformers asks it about every parameter that it makes",
    "accelerate": "transformers places weights by it",
    "kernels": "transformers replaces layers by kernels that it downloads",
    "bitsandbytes": "transformers imports it with its quantisers; its library is linked to one CUDA",
    "triton": "torch.compile compiles by it; each torch is made for one version",
}
"""Modules and what happens if a base image's own is found. Those of the lock file are the trainer's."""
JOB = {
    "name": "smoke",
    "steps": 1,
    "model": {
        "vocabulary": 384, "hidden": 32, "layers": 2, "heads": 4, "kv_heads": 2, "feed_forward": 64, "sequence": 64,
    },
    "data": {"source": "python-documentation"},
    "batch": {"sequences": 2, "micro": 1},
    "evaluate": {"sequences": 2},
    "metrics": {"every": 1, "port": None},
    "limits": {"threads": 1},
}  # fmt: skip
"""A Llama of 50,000 parameters, bfloat16, with data that Python itself brings."""


def strangers(packages: Path) -> list[str]:
    """One line for each package in reach that isn't in the folder, and what it does to a training."""
    found = {
        str(one.metadata["Name"]): f"{one.metadata['Name']} {one.version} in {place}"
        for one in metadata.distributions()
        if not (place := _place(one)).is_relative_to(packages.resolve())
    }
    named = {name.lower().replace("-", "_") for name in found}
    for module, why in PROBED.items():
        origin = _origin(module)
        if origin is not None and not origin.is_relative_to(packages.resolve()):
            lines = {name for name in found if name.lower().replace("-", "_") == module}
            for name in lines:
                found[name] += f" ({why})"
            if module not in named:
                found[module] = f"{module} in {origin.parent} ({why})"
    return [found[name] for name in sorted(found, key=str.lower)]


def _place(one: metadata.Distribution) -> Path:
    """The folder that the package is installed in."""
    return Path(str(one.locate_file(""))).resolve()


def _origin(module: str) -> Path | None:
    """Where an import would find the module; it isn't imported."""
    spec = find_spec(module)
    where: Iterable[str] = [] if spec is None else spec.submodule_search_locations or [str(spec.origin)]
    return next((Path(one).resolve() for one in where), None)


def check(packages: Path, lock: Path = versions.LOCK) -> None:
    """Raises exits.Failure if a package is in reach that isn't the trainer's, or one isn't as locked."""
    if found := strangers(packages):
        raise exits.Failure(
            "these packages of the base image are in reach of the trainer, which has its own in "
            f"{packages}:\n  " + "\n  ".join(found) + "\nHide them: `python3 -m venv --without-pip FOLDER`, "
            "without --system-site-packages, with FOLDER/bin first on PATH and no other folder on PYTHONPATH",
            exits.CONFIG,
        )
    if different := versions.unlocked(lock):
        raise exits.Failure("not as locked: " + "; ".join(different), exits.CONFIG)


def step() -> float:
    """Train the tiny model for one step; returns its loss. Raises exits.Failure if that fails."""
    from trainer import history
    from trainer.__main__ import main as train

    with tempfile.TemporaryDirectory(prefix="smoke-") as folder:
        job = Path(folder) / "job.yaml"
        job.write_text(json.dumps({**JOB, "output": folder}))  # JSON is YAML too
        status = train(["--config", str(job)])
        if status != exits.FINISHED:
            raise exits.Failure(f"a training step failed with status {status}", status)
        return history.read(Path(folder) / "metrics.jsonl").losses[1]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="trainer.smoke", description=__doc__)
    parser.add_argument(
        "--packages", type=Path, default=PACKAGES, help="folder of the trainer's own packages"
    )
    packages = parser.parse_args(arguments).packages
    if FROM_NODE.exists() and not (packages / "torch").exists():
        print(
            f"smoke: skipped. {FROM_NODE} says that the node mounts the packages in {packages}: "
            "they are not in this image, and each training names what differs from the lock file when it starts",
            flush=True,
        )
        return 0
    try:
        check(packages)
        loss = step()
    except exits.Failure as failure:
        print(f"smoke: {failure}", file=sys.stderr, flush=True)
        return failure.status
    print(f"smoke: {versions.installed()}; one step of a tiny Llama, loss {loss:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    exits.at_once(main(sys.argv[1:]))
