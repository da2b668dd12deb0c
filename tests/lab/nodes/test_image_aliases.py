"""The lab's images under vendors' names."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from lab.images.recipes import IMAGES
from lab.nodes.node.image_aliases import LAB_IMAGES, aliases, lookup_name, provide

WORDS = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)


def test_every_alias_is_of_an_image_that_the_lab_builds() -> None:
    built = {f"{image.name}:{image.tag}" for image in IMAGES if image.pushed}
    both = {**aliases(accelerated=False), **aliases(accelerated=True)}
    assert set(both.values()) == set(LAB_IMAGES.values())
    assert set(both.values()) <= built


def test_device_plugins_run_on_accelerated_nodes_only() -> None:
    assert not aliases(accelerated=True).keys() & aliases(accelerated=False).keys()
    assert all("device-plugin" in image for image in aliases(accelerated=True).values())
    assert not any("device-plugin" in image for image in aliases(accelerated=False).values())


@given(WORDS, st.integers(1, 65535), st.lists(WORDS, min_size=1, max_size=3), WORDS, WORDS)
def test_a_digest_takes_the_place_of_the_tag(
    host: str, port: int, path: list[str], tag: str, digest: str
) -> None:
    name = f"{host}:{port}/{'/'.join(path)}"
    assert lookup_name(f"{name}:{tag}") == f"{name}:{tag}"
    assert lookup_name(f"{name}:{tag}@sha256:{digest}") == f"{name}@sha256:{digest}"
    assert lookup_name(f"{name}@sha256:{digest}") == f"{name}@sha256:{digest}"


def test_images_are_pulled_before_they_are_tagged_and_failures_are_named() -> None:
    calls: list[tuple[str, ...]] = []

    def ctr(*arguments: str) -> bool:
        calls.append(arguments)
        return "prometheus" not in arguments[-1]

    missing = provide("localhost:14500", ctr, accelerated=False)
    assert len(missing) == 1 and missing[0].startswith("docker.io/prom/prometheus@sha256:")
    assert calls[0] == ("images", "pull", "localhost:14500/lab/training-operator:v1.8.1")
    assert calls[1][:3] == ("images", "tag", "--force")
    assert calls[1][3] == calls[0][2]
    assert all(call[1] == "pull" for call in calls if "prometheus" in call[2]), "nothing to tag"
