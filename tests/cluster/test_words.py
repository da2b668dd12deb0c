"""Unknown keys: what they are called here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.settings import schema, words
from cluster.settings.stack import StackFile
from tests.cluster.stack_files import changed, problems

SECTIONS = {section.__name__: section for section in schema.sections(StackFile)}
BLOCK = {"kind": "capacity-block", "id": "cr-0123456789abcdef0", "zone": "use1-az6", "nodes": 16}
PLACES = {
    "StackFile": "",
    "NetworkSettings": "network__",
    "KubernetesSettings": "kubernetes__",
    "SystemNodeGroupSettings": "systemNodeGroup__",
    "NodeGroupSettings": "nodeGroups__p5__",
    "Efa": "nodeGroups__p5__efa__",
    "CapacityReservation": "nodeGroups__p5__capacity__",
    "CapacityBlock": "nodeGroups__p5__capacity__",
    "FileSystemSettings": "storage__fileSystem__",
    "Storage": "storage__",
    "TrainerImage": "image__",
    "Job": "training__jobs__llama__",
    "Training": "training__",
    "DataPreparationJob": "training__dataPreparationJobs__corpus__",
}
"""Where each section is in the stack file of the tests."""


@pytest.mark.parametrize(("row", "new"), words.RENAMED.items(), ids=lambda value: str(value))
def test_an_old_key_is_refused_with_its_new_name(tmp_path: Path, row: tuple[str, str], new: str) -> None:
    section, old = row
    assert new in schema.keys(SECTIONS[section])
    assert old not in schema.keys(SECTIONS[section])
    changes: dict[str, Any] = {"nodeGroups__p5__capacity": BLOCK} if section == "CapacityBlock" else {}
    place = PLACES[section]
    found = problems(tmp_path, changed(**changes, **{f"{place}{old}": 1}))
    assert found[f"{place}{old}".replace("__", ".")].todo == f"It is called {new} now."


def test_the_value_of_an_old_key_is_checked_as_the_new_one_s(tmp_path: Path) -> None:
    values = changed()
    values["pools"] = values.pop("nodeGroups")
    values["systemPool"] = values.pop("systemNodeGroup")
    assert set(problems(tmp_path, values)) == {"pools", "systemPool"}, "and nothing that follows from them"
    values["pools"]["p5"]["zone"] = "use1-az9"
    assert "nodeGroups.p5.zone" in problems(tmp_path, values)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("nodeGroups__p5__capacity__capacityReservationID", "capacity.id"),
        ("nodeGroups__p5__capacity_reservation_id", "capacity.id"),
        ("nodeGroups__p5__instance_type", "instanceType"),
        ("nodeGroups__p5__instanceTypes", "instanceType"),
        ("nodeGroups__p5__availabilityZones", "zone"),
        ("nodeGroups__p5__minSize", "nodes.min"),
        ("nodeGroups__p5__max_size", "nodes.max"),
        ("nodeGroups__p5__desiredCapacity", "nodes.desired"),
        ("nodeGroups__p5__desired_size", "nodes.desired"),
        ("nodeGroups__p5__nodes__Max", "max"),
        ("nodeGroups__p5__capacity__Id", "id"),
        ("nodeGroups__p5__ODCR", "odcr"),
        ("managedNodeGroups", "nodeGroups"),
        ("node_groups", "nodeGroups"),
        ("eks_managed_node_groups", "nodeGroups"),
        ("kubernetes__publicAccessCIDRs", "publicAccessCidrs"),
        ("kubernetes__public_access_cidrs", "publicAccessCidrs"),
        ("kubernetes__cluster_endpoint_public_access_cidrs", "kubernetes.publicAccessCidrs"),
        ("availabilityZones", "network.zones"),
    ],
)
def test_words_of_eksctl_and_terraform_are_known(tmp_path: Path, path: str, hint: str) -> None:
    found = problems(tmp_path, changed(**{path: []}))
    todo = found[path.replace("__", ".")].todo
    assert hint in todo
    assert not todo.startswith("Known here")


@pytest.mark.parametrize(
    "kind", ["ODCR", "Odcr", "On_Demand", "onDemand", "CAPACITY_BLOCK", "capacityBlock", "SPOT"]
)
def test_kinds_are_known_in_any_case(tmp_path: Path, kind: str) -> None:
    found = problems(tmp_path, changed(nodeGroups__p5__capacity={"kind": kind}))
    assert words.normal(found["nodeGroups.p5.capacity"].todo.removeprefix("Did you mean ")) == words.normal(
        kind
    )


@pytest.mark.parametrize(
    ("given", "todo"),
    [
        ("p3.8xlarge", "Supported: p4d.24xlarge, "),
        ("g5.48xlarge", "Supported: p4d.24xlarge, "),
        ("p5.4xlarge", "Did you mean p5.48xlarge?"),
        ("P5.48XLARGE", "Did you mean p5.48xlarge?"),
    ],
)
def test_only_instance_types_of_the_same_family_are_suggested(tmp_path: Path, given: str, todo: str) -> None:
    found = problems(tmp_path, changed(nodeGroups__p5__instanceType=given))
    assert found["nodeGroups.p5.instanceType"].todo.startswith(todo)
    assert set(found) == {"nodeGroups.p5.instanceType"}, "the job's node group exists, though it is wrong"


def test_words_from_elsewhere_lead_to_keys_that_exist() -> None:
    known = {key for section in SECTIONS.values() for key in schema.keys(section)}
    for word, path in words.ELSEWHERE.items():
        assert word == words.normal(word)
        for key in (
            path.replace("<name>.", "").split(":")[0].split(";")[0].split(" (")[0].split(",")[0].split(".")
        ):
            assert key in known, f"{word}: {path}"
