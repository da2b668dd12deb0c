"""Render the training operator's manifests again: `python -m workloads.manifests.render`.

Needs Go (to fetch the module, whose content go.sum's database vouches for) and kubectl. Of the CRDs only
PyTorchJob's is kept: the operator runs with --enable-scheme=pytorchjob.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from workloads.manifests import FOLDER

MODULE = "github.com/kubeflow/training-operator"
VERSION = "v1.8.1"
OVERLAY = "manifests/overlays/standalone"
TARGET = FOLDER / "training-operator"
KEPT_CRD = "name: pytorchjobs.kubeflow.org"


def module_folder() -> Path:
    """Where Go keeps the module, downloaded if need be."""
    found = subprocess.run(
        ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path.home(),
    )
    return Path(json.loads(found.stdout)["Dir"])


def render(module: Path) -> tuple[str, str]:
    """The CRD and everything else, as YAML, from the overlay as it lies."""
    command = ["kubectl", "kustomize", str(module / OVERLAY)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents = rendered.split("\n---\n")
    crds = [text for text in documents if "\nkind: CustomResourceDefinition\n" in f"\n{text}\n"]
    others = [text for text in documents if text not in crds]
    (crd,) = [text for text in crds if f"  {KEPT_CRD}\n" in text]
    return crd.rstrip() + "\n", "\n---\n".join(text.rstrip() for text in others) + "\n"


def main() -> None:
    module = module_folder()
    crd, others = render(module)
    (TARGET / "pytorchjobs-crd.yaml").write_text(crd)
    (TARGET / "operator.yaml").write_text(others)
    shutil.copyfile(module / "LICENSE", TARGET / "LICENSE")


if __name__ == "__main__":
    main()
