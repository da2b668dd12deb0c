"""Vendors' manifests at a pinned version, and how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
Manifest = dict[str, Any]


def load(path: str) -> list[Manifest]:
    """The objects of a file below this folder, in its order."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one takes a tenth of the time
    with (FOLDER / path).open() as file:
        return [document for document in yaml.load_all(file, Loader=loader) if document]


def without_descriptions(value: Any) -> Any:
    """A CRD's schema less its prose: a quarter of the size, and the engine writes its whole state,
    this object included, after every step. `kubectl explain` of its fields is what is lost."""
    if isinstance(value, dict):
        return {
            key: without_descriptions(inner)
            for key, inner in value.items()
            if not (key == "description" and isinstance(inner, str))
        }
    if isinstance(value, list):
        return [without_descriptions(inner) for inner in value]
    return value
