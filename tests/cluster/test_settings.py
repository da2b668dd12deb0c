"""The stack file: what is right is read, what is wrong is said, all of it and with its path."""

from __future__ import annotations

import copy
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from cluster.settings import SettingsError, load_stack_file, schema
from cluster.settings.stack import StackFile
from tests.cluster.stack_files import RIGHT, changed, load, problems

STACKS = Path(__file__).parents[2] / "stacks"
RESERVED = {"kind": "odcr", "id": "cr-0123456789abcdef0", "zone": "use1-az6", "nodes": 16}
WORDS = ["kind", "create", "id", "nodes", "min", "max", "zone", "efa", "interfaces", "gpu", "cidr", "what"]
BLOCK = {
    "kind": "capacity-block",
    "id": "cr-0123456789abcdef0",
    "zone": "use1-az6",
    "nodes": 16,
    "startDate": "2026-11-30T11:30:00Z",
    "endDate": "2026-12-07T11:30:00Z",
}


def test_a_right_file_gives_settings(tmp_path: Path) -> None:
    settings = load(tmp_path, RIGHT)
    assert settings.name == "shardyard-test"
    assert settings.network.zones == ("use1-az4", "use1-az6")
    assert settings.node_groups["p5"].nodes.max == 16
    assert settings.storage.file_system.capacity_gib == 4800
    assert settings.directory == tmp_path


def test_settings_can_not_be_changed(tmp_path: Path) -> None:
    settings = load(tmp_path, RIGHT)
    with pytest.raises(ValidationError):
        settings.network.cidr = "10.0.0.0/16"
    with pytest.raises(AttributeError):
        settings.region = "us-west-2"  # type: ignore[misc]


@pytest.mark.parametrize("file", sorted(STACKS.glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_every_stack_file_of_the_repository_is_right(file: Path) -> None:
    assert load_stack_file(file).stack == file.name.split(".")[1]


def test_a_missing_file_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"can't be read"):
        load_stack_file(tmp_path / "Pulumi.nowhere.yaml")


def test_all_problems_come_at_once_with_their_paths(tmp_path: Path) -> None:
    values = changed(
        netwrk={},
        network__natGateways="singel",
        kubernetes__addons__coredns="latest",
        nodeGroups__p5__zone="use1-az9",
        nodeGroups__p5__instanceTyp="p5.48xlarge",
        storage__fileSystem__capacityGib=1300,
        image__base="example.com/base:latest",
        training__jobs__llama__nodeGroup="p6",
    )
    found = problems(tmp_path, values)
    assert set(found) == {
        "netwrk",
        "network.natGateways",
        "kubernetes.addons.coredns",
        "nodeGroups.p5.instanceTyp",
        "storage.fileSystem.capacityGib",
        "image.base",
        "training.jobs.llama.nodeGroup",
    }, "checks that compare sections wait until both are valid"
    assert found["netwrk"].todo == "Did you mean network?"
    assert found["network.natGateways"].todo == "Did you mean single?"
    assert found["nodeGroups.p5.instanceTyp"].todo == "Did you mean instanceType?"


@pytest.mark.parametrize("key", ["keepData", "forceDestroy"])
def test_a_key_of_another_name_is_refused_with_its_new_one(tmp_path: Path, key: str) -> None:
    found = problems(tmp_path, changed(**{f"storage__{key}": False}))
    assert found[f"storage.{key}"].what == "is not a known key"
    assert "deleteData" in found[f"storage.{key}"].todo
    assert "kept" in found[f"storage.{key}"].todo


def test_an_unknown_key_does_not_hide_contradictions(tmp_path: Path) -> None:
    found = problems(tmp_path, changed(nodeGroups__p5__zone="use1-az9", nodeGroups__p5__taint=[]))
    assert set(found) == {"nodeGroups.p5.zone", "nodeGroups.p5.taint", "training.jobs.llama.nodeGroup"}


def test_an_unknown_key_does_not_hide_that_another_is_needed(tmp_path: Path) -> None:
    found = problems(tmp_path, changed(image={"basis": "localhost/base:1"}))
    assert found["image.basis"].todo == "Did you mean base?"
    assert "either base" in found["image"].what


def test_a_bad_node_group_does_not_hide_what_is_wrong_with_another(tmp_path: Path) -> None:
    good = RIGHT["nodeGroups"]["p5"]
    found = problems(
        tmp_path, changed(nodeGroups__bad={"zone": 3}, nodeGroups__lost={**good, "zone": "use1-az9"})
    )
    assert "nodeGroups.lost.zone" in found
    assert {"nodeGroups.bad.zone", "nodeGroups.bad.instanceType", "nodeGroups.bad.capacity"} <= set(found)


def test_the_message_is_for_a_person(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, changed(network__zone=["use1-az4"], region="us-east"))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/Pulumi.test.yaml: 2 problems\n")
    assert "shardyard:network.zone\n  is not a known key\n  → Did you mean zones?" in text


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    # what is wrong, the changes, the path, a part of what is said
    ("no region", {"region": ...}, "region", "is missing"),
    ("a section is missing", {"storage": ...}, "storage", "is missing"),
    ("number as text", {"systemNodeGroup__nodes__max": "4"}, "systemNodeGroup.nodes.max", "not an integer"),
    ("text as number", {"kubernetes__version": 1.34}, "kubernetes.version", "not text"),
    ("node groups are a list", {"nodeGroups": []}, "nodeGroups", "mapping"),
    (
        "node group's name",
        {"nodeGroups__P5_Big": RIGHT["nodeGroups"]["p5"]},
        "nodeGroups.P5_Big",
        "not a name",
    ),
    (
        "the system node group's name",
        {"nodeGroups__system": RIGHT["nodeGroups"]["p5"]},
        "nodeGroups.system",
        "system node group",
    ),
    ("account as number", {"allowedAccountIds": [123456789012]}, "allowedAccountIds[0]", "not text"),
    # the network
    (
        "zone of another region",
        {"network__zones": ["use1-az4", "usw2-az1"]},
        "network.zones[1]",
        "not in us-east-1",
    ),
    ("no such region", {"region": "us-easter-1"}, "region", "not the name"),
    ("one zone", {"network__zones": ["use1-az6"]}, "network.zones", "at least 2"),
    ("a zone twice", {"network__zones": ["use1-az6", "use1-az6"]}, "network.zones", "twice"),
    ("EKS's zones", {"network__zones": ["use1-az3", "use1-az6"]}, "network.zones", "accepts only use1-az6"),
    ("public addresses", {"network__cidr": "52.0.0.0/16"}, "network.cidr", "not a private network"),
    ("host bits", {"network__cidr": "10.40.0.1/16"}, "network.cidr", "host bits"),
    ("too large", {"network__cidr": "10.0.0.0/8"}, "network.cidr", "/8"),
    ("overlaps services", {"network__cidr": "172.20.0.0/16"}, "network.cidr", "Kubernetes' Services"),
    (
        "overlaps an office",
        {"network__reservedCidrs": ["10.40.8.0/24"]},
        "network.cidr",
        "network.reservedCidrs[0]",
    ),
    ("too few addresses", {"network__cidr": "10.40.0.0/22"}, "network.cidr", "node group p5"),
    (
        "unknown endpoint",
        {"network__interfaceEndpoints": ["ecr.dkt"]},
        "network.interfaceEndpoints[0]",
        "ecr.dkt",
    ),
    ("odd retention", {"network__flowLogDays": 8}, "network.flowLogRetentionDays", "none of"),
    # versions
    (
        "kube-proxy",
        {"kubernetes__version": "1.33"},
        "kubernetes.addons.kube-proxy",
        "not for Kubernetes 1.33",
    ),
    (
        "AMI release",
        {"kubernetes__amiReleaseVersion": "1.33.1-20260101"},
        "kubernetes.amiReleaseVersion",
        "not for",
    ),
    (
        "a node group's AMI release",
        {"nodeGroups__p5__amiReleaseVersion": "1.33.1-20260101"},
        "nodeGroups.p5.amiReleaseVersion",
        "not for",
    ),
    (
        "release not pinned",
        {"kubernetes__amiReleaseVersion": "latest"},
        "kubernetes.amiReleaseVersion",
        "not the release version",
    ),
    ("add-on not named", {"kubernetes__addons__coredns": ...}, "kubernetes.addons.coredns", "missing"),
    (
        "old CNI",
        {"kubernetes__addons__vpc-cni": "v1.18.3-eksbuild.1"},
        "kubernetes.addons.vpc-cni",
        "efa-only",
    ),
    # node groups
    ("min above max", {"systemNodeGroup__nodes__min": 5}, "systemNodeGroup.nodes", "min ≤ desired ≤ max"),
    (
        "unknown type",
        {"nodeGroups__p5__instanceType": "p5.4xlarg"},
        "nodeGroups.p5.instanceType",
        "not a supported instance type",
    ),
    (
        "GPU type for the system",
        {"systemNodeGroup__instanceType": "p5.48xlarge"},
        "systemNodeGroup.instanceType",
        "not a supported instance type",
    ),
    (
        "zone outside the network",
        {"nodeGroups__p5__zone": "use1-az1"},
        "nodeGroups.p5.zone",
        "none of the network's zones",
    ),
    (
        "too many EFA",
        {"nodeGroups__p5__efa": {"interfaces": 33}},
        "nodeGroups.p5.efa.interfaces",
        "supports 32",
    ),
    (
        "more pods than addresses",
        {"kubernetes__prefixDelegation": False},
        "nodeGroups.p5.maxPods",
        "has addresses for 51",
    ),
    # capacity
    ("no kind", {"nodeGroups__p5__capacity": {}}, "nodeGroups.p5.capacity", "no kind"),
    ("unknown kind", {"nodeGroups__p5__capacity": {"kind": "ocdr"}}, "nodeGroups.p5.capacity", "none of"),
    (
        "two targets",
        {"nodeGroups__p5__capacity": {**RESERVED, "create": {"nodes": 1}}},
        "nodeGroups.p5.capacity",
        "exactly one",
    ),
    (
        "facts missing",
        {"nodeGroups__p5__capacity": {"kind": "odcr", "id": "cr-01234567"}},
        "nodeGroups.p5.capacity",
        "zone",
    ),
    (
        "bad id",
        {"nodeGroups__p5__capacity": {**RESERVED, "id": "r-1"}},
        "nodeGroups.p5.capacity.id",
        "not the id",
    ),
    (
        "reservation elsewhere",
        {"nodeGroups__p5__capacity": {**RESERVED, "zone": "use1-az4"}},
        "nodeGroups.p5.zone",
        "use1-az4",
    ),
    (
        "reservation too small",
        {"nodeGroups__p5__capacity": {**RESERVED, "nodes": 8}},
        "nodeGroups.p5.nodes.max",
        "holds 8",
    ),
    (
        "own reservation too small",
        {"nodeGroups__p5__capacity": {"kind": "odcr", "create": {"nodes": 8}}},
        "nodeGroups.p5.nodes.max",
        "holds 8",
    ),
    (
        "group for another's reservation",
        {"nodeGroups__p5__capacity": RESERVED, "nodeGroups__p5__placementGroup": True},
        "nodeGroups.p5.placementGroup",
        "existing reservation",
    ),
    (
        "group of another region",
        {
            "nodeGroups__p5__capacity": {
                **RESERVED,
                "placementGroupArn": "arn:aws:ec2:us-west-2:123456789012:placement-group/p5",
            }
        },
        "nodeGroups.p5.capacity.placementGroupArn",
        "not in us-east-1",
    ),
    (
        "group for a block",
        {"nodeGroups__p5__capacity": BLOCK, "nodeGroups__p5__placementGroup": True},
        "nodeGroups.p5.placementGroup",
        "places the instances",
    ),
    (
        "block ends before it starts",
        {"nodeGroups__p5__capacity": {**BLOCK, "endDate": "2026-11-01T11:30:00Z"}},
        "nodeGroups.p5.capacity.endDate",
        "ends after it starts",
    ),
    (
        "block not yet open",
        {"nodeGroups__p5__capacity": {**BLOCK, "startDate": "2026-12-02T11:30:00Z"}},
        "nodeGroups.p5.nodes.desired",
        "starts at 2026-12-02 11:30",
    ),
    (
        "block over",
        {"nodeGroups__p5__capacity": {**BLOCK, "endDate": "2026-12-01T00:29:00Z"}},
        "nodeGroups.p5.capacity.endDate",
        "30 minutes earlier",
    ),
    # storage, image, jobs
    (
        "file system's size",
        {"storage__fileSystem__capacityGib": 3600},
        "storage.fileSystem.capacityGib",
        "multiple of 2400",
    ),
    (
        "file system's zone",
        {"storage__fileSystem__zone": "use1-az5"},
        "storage.fileSystem.zone",
        "none of the network's zones",
    ),
    (
        "Lustre across zones",
        {"storage__fileSystem__zone": "use1-az4"},
        "training.jobs.llama.nodeGroup",
        "use1-az4",
    ),
    ("base by tag", {"image__base": "example.com/base:1"}, "image.base", "not pinned"),
    (
        "reference by tag",
        {"image": {"reference": "localhost:5000/trainer:1"}},
        "image.reference",
        "by digest",
    ),
    ("base and reference", {"image__reference": f"x/y@sha256:{'a' * 64}"}, "image", "either"),
    (
        "third party by tag",
        {"images": {"prometheus": "prom/prometheus:v3.5.0"}},
        "images.prometheus",
        "not pinned",
    ),
    (
        "unpinned without a reason",
        {"images": {"prometheus": {"tag": "prom/prometheus:v3.5.0", "unpinned": ""}}},
        "images.prometheus.unpinned",
        "at least 10 characters",
    ),
    (
        "unpinned and latest",
        {"images": {"prometheus": {"tag": "prom/prometheus:latest", "unpinned": "no digest yet"}}},
        "images.prometheus.tag",
        "no fixed tag",
    ),
    (
        "job without a node group",
        {"training__jobs__llama__nodeGroup": "p55"},
        "training.jobs.llama.nodeGroup",
        "no node group p55",
    ),
    (
        "job's file",
        {"training__jobs__llama__config": "no.yaml"},
        "training.jobs.llama.config",
        "cannot be read",
    ),
    (
        "too many GPUs",
        {"training__jobs__llama__resources": {"gpu": 9}},
        "training.jobs.llama.resources.gpu",
        "has 8",
    ),
    (
        "too many workers",
        {"training__jobs__llama__workers": {"min": 16, "max": 17}},
        "training.jobs.llama.workers.max",
        "room for 16",
    ),
    (
        "job's other name",
        {"training__jobs": {"other": RIGHT["training"]["jobs"]["llama"]}},
        "training.jobs.other.config",
        "llama",
    ),
]


@pytest.mark.parametrize(
    ("changes", "path", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_one_thing_wrong(tmp_path: Path, changes: dict[str, Any], path: str, said: str) -> None:
    found = problems(tmp_path, changed(**changes))
    assert path in found, f"found only {found}"
    assert said in found[path].what


FINE: list[tuple[str, dict[str, Any]]] = [
    ("on-demand", {"nodeGroups__p5__capacity": {"kind": "on-demand"}, "nodeGroups__p5__placementGroup": True}),
    ("spot", {"nodeGroups__p5__capacity": {"kind": "spot"}}),
    ("reservation by id", {"nodeGroups__p5__capacity": RESERVED}),
    ("an open block", {"nodeGroups__p5__capacity": BLOCK}),
    (
        "a coming block at zero",
        {
            "nodeGroups__p5__capacity": {**BLOCK, "startDate": "2026-12-02T11:30:00Z"},
            "nodeGroups__p5__nodes": {"min": 0, "desired": 0, "max": 16},
        },
    ),
    ("own reservation in an own group", {"nodeGroups__p5__placementGroup": True}),
    ("loopback by tag", {"images": {"prometheus": "localhost:5000/prometheus:1"}}),
    ("finished image", {"image": {"reference": f"example.com/t@sha256:{'b' * 64}"}}),
    ("no jobs", {"training": ...}),
    ("no node groups", {"nodeGroups": {}, "training": ...}),
    ("older EFA layout with an older CNI", {
        "kubernetes__addons__vpc-cni": "v1.18.3-eksbuild.1",
        "nodeGroups__p5__efa": {"interfaceType": "efa"},
    }),
]  # fmt: skip


@pytest.mark.parametrize("changes", [row[1] for row in FINE], ids=[row[0] for row in FINE])
def test_this_is_fine(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert problems(tmp_path, changed(**changes)) == {}


def test_two_node_groups_share_a_reservation_only_if_it_holds_both(tmp_path: Path) -> None:
    half = {**RIGHT["nodeGroups"]["p5"], "capacity": RESERVED, "nodes": {"desired": 8, "max": 8}}
    job = {"training__jobs__llama__workers": {"min": 8, "max": 8}}
    assert problems(tmp_path, changed(nodeGroups={"p5": half, "q": half}, **job)) == {}
    found = problems(
        tmp_path, changed(nodeGroups={"p5": half, "q": {**half, "nodes": {"desired": 8, "max": 9}}}, **job)
    )
    assert "together up to 17 nodes" in found["nodeGroups.q.capacity"].what


def test_a_block_s_window_depends_on_the_day(tmp_path: Path) -> None:
    values = changed(nodeGroups__p5__capacity=BLOCK)
    assert problems(tmp_path, values, now=datetime(2026, 12, 7, 10, 59, tzinfo=UTC)) == {}
    assert "nodeGroups.p5.capacity.endDate" in problems(
        tmp_path, values, now=datetime(2026, 12, 7, 11, tzinfo=UTC)
    )


def test_efa_layout_changes_what_fits(tmp_path: Path) -> None:
    """32 addresses a node for EFA alone are what a small network lacks."""
    small: dict[str, Any] = {
        "network__cidr": "10.40.0.0/18",
        "nodeGroups__p5__nodes": {"desired": 16, "max": 26},
    }
    small |= {"nodeGroups__p5__capacity": {"kind": "on-demand"}, "nodeGroups__p5__maxPods": 110}
    assert problems(tmp_path, changed(**small)) == {}
    found = problems(tmp_path, changed(**small, nodeGroups__p5__efa={"interfaceType": "efa"}))
    assert "efa.interfaceType: efa-only" in found["network.cidr"].todo


@pytest.mark.parametrize("stack", ["Prod", "a_b", "x" * 31])
def test_a_stack_s_name_becomes_the_cluster_s(tmp_path: Path, stack: str) -> None:
    assert "(stack name)" in problems(tmp_path, RIGHT, stack=stack)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text("a1-:/.", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


def read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    values = copy.deepcopy(RIGHT)
    node: Any = values
    while True:
        key = data.draw(st.sampled_from(sorted(node)))
        if not isinstance(node[key], dict) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(JSON)
    for problem in problems(tmp_path, values).values():
        assert problem.path.startswith(("shardyard:", "("))
        assert problem.what and problem.todo


FILES = hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)


@FILES
@hypothesis.given(data=st.data())
def test_whatever_is_in_the_file_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Nothing but SettingsError leaves the reader, and every problem says where it is."""
    read_or_refused(tmp_path, data)


@pytest.mark.soak
@hypothesis.settings(FILES, max_examples=2000)
@hypothesis.given(data=st.data())
def test_whatever_is_in_two_thousand_files_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    read_or_refused(tmp_path, data)


def test_every_key_is_in_the_manual() -> None:
    manual = (STACKS.parent / "docs/stack-file.md").read_text()
    known = {key for section in schema.sections(StackFile) for key in schema.keys(section)}
    assert not {key for key in known if not re.search(rf"\b{re.escape(key)}\b", manual)}


def test_nothing_of_the_program_knows_the_local_stack() -> None:
    root = STACKS.parent
    files = [
        *root.glob("cluster/**/*.py"),
        *root.glob("workloads/**/*.py"),
        root / "__main__.py",
        root / "Pulumi.yaml",
    ]
    assert len(files) > 30
    for file in files:
        assert not re.search(r"\blab[.:/]|import lab|kwok|:14\d{3}\b", file.read_text()), file
