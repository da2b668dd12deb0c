"""User data is read as nodeadm reads it: merged, validated, and refused where a node couldn't start."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node_config import user_data
from lab.aws.eks.node_config import NodeConfig, NodeConfigError, NotMime, read_user_data

HEADER = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}


def multipart(*parts: tuple[str, str]) -> str:
    """User data of (content type, content) parts."""
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="//"', ""]
    for kind, content in parts:
        lines += ["--//", f"Content-Type: {kind}", "", content]
    return base64.b64encode("\n".join([*lines, "--//--", ""]).encode()).decode()


def config(**spec: Any) -> tuple[str, str]:
    return "application/node.eks.aws", json.dumps(HEADER | {"spec": spec})


@given(st.integers(1, 1000), st.integers(0, 8))
def test_what_the_program_writes_is_understood(max_pods: int, disks: int) -> None:
    found = read_user_data(user_data(max_pods=max_pods, instance_store_volumes=disks))
    assert found == NodeConfig(max_pods, {}, "RAID0" if disks else "")


def test_no_user_data_says_nothing() -> None:
    assert read_user_data(None) == read_user_data("") == NodeConfig()


def test_later_parts_win_setting_by_setting() -> None:
    first = config(kubelet={"config": {"maxPods": 10}}, instance={"localStorage": {"strategy": "RAID0"}})
    second = config(kubelet={"config": {"maxPods": 20}, "flags": ["--node-labels=a=b,c="]})
    found = read_user_data(multipart(first, ("text/x-shellscript", "#!/bin/sh\nkubelet: ["), second))
    assert found == NodeConfig(20, {"a": "b", "c": ""}, "RAID0")


def test_a_flag_goes_over_the_configuration() -> None:
    kubelet = {"config": {"maxPods": 10}, "flags": ["--max-pods=30"]}
    assert read_user_data(multipart(config(kubelet=kubelet))).max_pods == 30


@pytest.mark.parametrize(
    "part",
    [
        ("application/node.eks.aws", "{"),
        ("application/node.eks.aws", "[1]"),
        ("application/node.eks.aws", "kind: NodeConfig"),
        config(kubelet=[]),
        config(kubelet={"config": {"maxPods": "many"}}),
        config(kubelet={"config": {"maxPods": 0}}),
        config(kubelet={"flags": ["--node-labels=alone"]}),
        config(kubelet={"flags": "--max-pods=3"}),
        config(instance={"localStorage": {"strategy": "RAID5"}}),
    ],
)
def test_what_no_node_could_start_with_is_refused(part: tuple[str, str]) -> None:
    with pytest.raises(NodeConfigError):
        read_user_data(multipart(part))


def test_a_script_alone_is_no_mime_message() -> None:
    with pytest.raises(NotMime):
        read_user_data(base64.b64encode(b"#!/bin/sh\n").decode())
    with pytest.raises(NodeConfigError):
        read_user_data("not base64!")
