"""The modules that add calls and rules to moto; importing one registers what it holds."""

from __future__ import annotations

import importlib

MODULES: tuple[str, ...] = ()


def load() -> None:
    for module in MODULES:
        importlib.import_module(f"lab.aws.{module}")
