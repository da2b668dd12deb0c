"""Zone ids and regions, against the zone ids that moto knows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import moto
import pytest

from cluster.zones import control_plane_zones, in_region, zone_id_prefix

OFFERINGS = Path(moto.__file__).parent / "ec2/resources/instance_type_offerings/availability-zone-id"


@pytest.mark.parametrize(
    "file", sorted(OFFERINGS.glob("*.json.gz")), ids=lambda file: file.name.split(".")[0]
)
def test_prefix_of_every_region(file: Path) -> None:
    region = file.name.split(".")[0]
    with gzip.open(file) as content:
        zones = {offering["Location"] for offering in json.load(content)}
    assert zones
    assert [zone for zone in zones if not in_region(zone, region)] == []


@pytest.mark.parametrize(("region", "prefix"), [("us-gov-west-1", "usgw1"), ("ap-southeast-5", "apse5")])
def test_prefixes_that_moto_has_no_file_for(region: str, prefix: str) -> None:
    assert zone_id_prefix(region) == prefix


@pytest.mark.parametrize("word", ["us-east", "us-easter-1", "useast1", "", "us-east-one"])
def test_words_that_are_no_region(word: str) -> None:
    with pytest.raises(ValueError, match="not the name of an AWS region"):
        zone_id_prefix(word)


@pytest.mark.parametrize("zone", ["us-east-1a", "use1-az", "use2-az1", "use11-az1"])
def test_zones_elsewhere(zone: str) -> None:
    assert not in_region(zone, "us-east-1")


def test_control_plane_leaves_out_what_eks_refuses() -> None:
    assert control_plane_zones(("use1-az3", "use1-az6", "use1-az4")) == ("use1-az6", "use1-az4")
