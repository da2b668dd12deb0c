"""The table of programs agrees with the modules that pin them, and with the images named after them."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from lab.images.recipes import IMAGES
from lab.toolchain import programs as table

REQUIRED = {
    "kubernetes": ("k8s.io/kubernetes", table.KUBERNETES),
    "pulumi": ("github.com/pulumi/pulumi/pkg/v3", table.PULUMI),
    "kwok": ("sigs.k8s.io/kwok", "v0.8.0"),
}


def required(folder: Path, module: str) -> str:
    text = (folder / "go.mod").read_text()
    match = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    assert match, f"{folder}/go.mod requires no {module}"
    return match[1]


def test_every_module_has_its_program_and_every_program_its_module() -> None:
    folders = {path.parent.name for path in table.MODULES.glob("*/go.mod")}
    assert {program.name for program in table.programs()} == folders


def test_no_two_programs_provide_the_same_command() -> None:
    names = [name for program in table.programs() for name in program.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", REQUIRED)
def test_the_version_asked_of_a_program_is_the_one_that_is_pinned(name: str) -> None:
    program = next(program for program in table.programs() if program.name == name)
    module, version = REQUIRED[name]
    assert program.version == version == required(program.folder, module)


@pytest.mark.parametrize(
    ("image", "program", "module"),
    [
        ("lab/coredns", "coredns", "github.com/coredns/coredns"),
        ("lab/training-operator", "training-operator", "github.com/kubeflow/training-operator"),
    ],
)
def test_an_image_s_tag_is_the_version_of_what_is_in_it(image: str, program: str, module: str) -> None:
    tag = next(each.tag for each in IMAGES if each.name == image)
    assert tag == required(table.MODULES / program, module)


@pytest.mark.parametrize("name", ["pulumi-aws", "pulumi-kubernetes"])
def test_a_plugin_says_the_version_that_the_package_asks_for(name: str) -> None:
    plugin = next(program for program in table.programs() if program.name == name)
    assert f"-X main.version={importlib.metadata.version(name)}" in plugin.ldflags


def test_all_of_a_multi_call_binary_s_names_are_asked_for_their_version() -> None:
    """Taken from PATH are all of them or none: one left out would be missing from the cache."""
    for program in table.programs():
        if program.versions:
            assert set(program.versions) == set(program.names)
