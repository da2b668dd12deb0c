"""From access entries to bindings."""

from __future__ import annotations

import pytest

from lab.nodes.api import AccessEntry, access_group
from lab.nodes.eks.access_policies import CLUSTER_ROLES, bindings

ADMIN = "arn:aws:iam::123456789012:role/admin"


def entry(*policies: tuple[str, tuple[str, ...]], arn: str = ADMIN) -> AccessEntry:
    return AccessEntry(arn, "user", (), policies)


@pytest.mark.parametrize(("policy", "role"), CLUSTER_ROLES.items())
def test_a_policy_is_a_cluster_role(policy: str, role: str) -> None:
    (binding,) = bindings([entry((policy, ()))])
    made = binding.object()
    assert made["kind"] == "ClusterRoleBinding"
    assert made["roleRef"]["name"] == role
    assert {"Group", "User"} == {subject["kind"] for subject in made["subjects"]}
    assert made["subjects"][0]["name"] == access_group(ADMIN)


def test_namespaces_get_a_role_binding_each() -> None:
    found = bindings([entry(("AmazonEKSEditPolicy", ("a", "b")))])
    assert {b.namespace for b in found} == {"a", "b"}
    assert all(b.object()["kind"] == "RoleBinding" for b in found)
    assert all(f"/namespaces/{b.namespace}/rolebindings" in b.collection for b in found)


def test_names_tell_principals_and_policies_apart() -> None:
    others = [
        entry(("AmazonEKSViewPolicy", ()), arn=f"arn:aws:iam::123456789012:role/{n}") for n in range(20)
    ]
    found = bindings([*others, entry(("AmazonEKSEditPolicy", ()), arn=others[0].principal_arn)])
    assert len({b.name for b in found}) == 21


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"AmazonEKSRootPolicy.*AmazonEKSClusterAdminPolicy"):
        bindings([entry(("AmazonEKSRootPolicy", ()))])
