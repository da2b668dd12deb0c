"""A node group that EKS could not create fails every `up` until it is replaced, with the command that does it."""

from __future__ import annotations

import pulumi
import pytest

from cluster.node_groups import name_of_created

URN = "urn:pulumi:p5::shardyard::aws:eks/nodeGroup:NodeGroup::p5-p5"


@pytest.mark.parametrize("status", ["ACTIVE", "UPDATING", "DEGRADED", "CREATING", None])
def test_a_node_group_that_exists_has_its_name(status: str | None) -> None:
    assert name_of_created("p5-1", status, URN) == "p5-1"


@pytest.mark.parametrize(("status", "verb"), [("CREATE_FAILED", "create"), ("DELETE_FAILED", "delete")])
def test_a_failed_one_is_named_with_the_way_out(status: str, verb: str) -> None:
    with pytest.raises(pulumi.RunError) as error:
        name_of_created("p5-1", status, URN)
    text = str(error.value)
    assert f"could not {verb} node group p5-1" in text
    assert f"pulumi up --replace '{URN}'" in text
    assert "--nodegroup-name p5-1" in text
