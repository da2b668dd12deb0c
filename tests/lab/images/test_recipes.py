"""The table of images, and what makes one outdated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.images import base, build, storage
from lab.images.recipes import BASE, FOLDER, IMAGES, Image
from lab.settings import Lab
from lab.toolchain import debian, stamps
from lab.toolchain.plan import Plan


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("test", tmp_path / "cache", tmp_path / "state")


@pytest.fixture
def pause(lab: Lab) -> Image:
    lab.bin.mkdir(parents=True)
    (lab.bin / "node-plugins").write_text("binary")
    return next(image for image in IMAGES if image.name == "lab/pause")


def test_every_image_has_a_recipe_and_every_recipe_an_image() -> None:
    assert {image.containerfile for image in IMAGES} == set(FOLDER.glob("*.Containerfile"))


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.short)
def test_a_recipe_copies_only_what_it_is_given(image: Image, lab: Lab) -> None:
    text = image.containerfile.read_text()
    given = {*image.files(lab), *(["base.tar"] if image == BASE else [])}
    copied = {
        word.rstrip("/")
        for line in re.findall(r"^(?:COPY|ADD) (.*) \S+$", text, re.M)
        for word in line.split()
    }
    assert copied == given


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.short)
def test_nothing_is_pulled(image: Image) -> None:
    (parent,) = re.findall(r"^FROM (\S+)$", image.containerfile.read_text(), re.M)
    assert parent in ("scratch", BASE.local)
    assert (parent == BASE.local) == (BASE.step in image.needs)


def test_a_changed_binary_outdates_the_image(lab: Lab, pause: Image) -> None:
    before = pause.inputs(lab)
    assert pause.inputs(lab) == before
    (lab.bin / "node-plugins").write_text("binary, changed")
    assert pause.inputs(lab) != before


def test_an_image_is_fresh_only_if_storage_holds_the_very_one(lab: Lab, pause: Image) -> None:
    stamps.Stamp(pause.inputs(lab), facts={"id": "cafe"}).write(lab, "image-pause")
    folder = build.exported(lab, pause)
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    assert build._is_fresh(lab, pause, {pause.local: "cafe"})
    assert not build._is_fresh(lab, pause, {pause.local: "beef"})
    assert not build._is_fresh(lab, pause, {})
    (folder / "manifest.json").unlink()
    assert not build._is_fresh(lab, pause, {pause.local: "cafe"})


def test_a_program_that_is_to_be_built_outdates_its_images(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "prepare", lambda lab: None)
    monkeypatch.setattr(build, "outdated", lambda lab, images: [])
    names = [step.name for step in Plan(lab).image_steps({"build:node-plugins"})]
    assert names == ["image:pause", "image:nvidia-device-plugin", "image:efa-device-plugin"]
    assert Plan(lab).image_steps(set()) == []


def test_a_new_base_outdates_what_is_built_on_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "prepare", lambda lab: None)
    monkeypatch.setattr(build, "outdated", lambda lab, images: [BASE])
    steps = {step.name: step for step in Plan(lab).image_steps(set())}
    assert steps.keys() == {"image:base", "image:prometheus"}
    assert steps["image:prometheus"].needs == {"image:base"}


def test_another_debian_s_mirrors_give_debian_12() -> None:
    sources = [
        debian.Source("http://mirror.example/debian/", "trixie", ("main", "contrib"), "/keys/debian.gpg"),
        debian.Source("http://mirror.example/debian/", "trixie-backports", ("main",), "/keys/debian.gpg"),
        debian.Source("http://mirror.example/security/", "trixie-security", ("main",), ""),
    ]
    assert base.bookworm(sources, "trixie") == [
        "deb [signed-by=/keys/debian.gpg] http://mirror.example/debian/ bookworm main",
        "deb http://mirror.example/security/ bookworm-security main",
    ]
