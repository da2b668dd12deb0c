"""Add-ons and pod identity associations."""

from __future__ import annotations

from typing import Any

import pytest

from lab.aws.eks import addons
from tests.lab.aws.support import RecordingRuntime, Roles, refused
from tests.waiting import eventually


def describe(eks: Any, cluster: str, name: str) -> dict[str, Any]:
    return dict(eks.describe_addon(clusterName=cluster, addonName=name)["addon"])


def test_an_addon_is_installed_changed_and_removed(eks: Any, cluster: str, runtime: RecordingRuntime) -> None:
    addon = {"clusterName": cluster, "addonName": "vpc-cni"}
    created = eks.create_addon(
        **addon, addonVersion="v1.20.4-eksbuild.2", configurationValues='{"env": {"A": "1"}}'
    )
    assert created["addon"]["status"] == "CREATING"
    eventually(lambda: describe(eks, cluster, "vpc-cni")["status"] == "ACTIVE")
    assert runtime.addons[cluster, "vpc-cni"] == ("v1.20.4-eksbuild.2", {"env": {"A": "1"}})
    changed = eks.update_addon(
        **addon, addonVersion="v1.20.5-eksbuild.1", configurationValues="env:\n  A: '2'\n"
    )
    update = {"name": cluster, "addonName": "vpc-cni", "updateId": changed["update"]["id"]}
    eventually(lambda: eks.describe_update(**update)["update"]["status"] == "Successful")
    assert runtime.addons[cluster, "vpc-cni"] == ("v1.20.5-eksbuild.1", {"env": {"A": "2"}})
    eks.delete_addon(**addon)
    eventually(lambda: eks.list_addons(clusterName=cluster)["addons"] == [])
    assert (cluster, "vpc-cni") not in runtime.addons


def test_a_preserved_addon_stays_in_the_cluster(eks: Any, cluster: str, runtime: RecordingRuntime) -> None:
    addon = {"clusterName": cluster, "addonName": "kube-proxy"}
    eks.create_addon(**addon)
    eventually(lambda: describe(eks, cluster, "kube-proxy")["status"] == "ACTIVE")
    eks.delete_addon(**addon, preserve=True)
    eventually(lambda: eks.list_addons(clusterName=cluster)["addons"] == [])
    assert (cluster, "kube-proxy") in runtime.addons


def test_coredns_without_a_node_is_degraded(eks: Any, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addons, "PATIENCE", 5.0)
    eks.create_addon(clusterName=cluster, addonName="coredns")
    eventually(lambda: describe(eks, cluster, "coredns")["status"] == "DEGRADED")
    [issue] = describe(eks, cluster, "coredns")["health"]["issues"]
    assert issue["code"] == "InsufficientNumberOfReplicas"


def test_an_addon_that_fails_says_why(eks: Any, cluster: str, runtime: RecordingRuntime) -> None:
    runtime.failing["install_addon"] = "no such object"
    eks.create_addon(clusterName=cluster, addonName="metrics-server")
    eventually(lambda: describe(eks, cluster, "metrics-server")["status"] == "CREATE_FAILED")
    assert "no such object" in describe(eks, cluster, "metrics-server")["health"]["issues"][0]["message"]


@pytest.mark.parametrize(
    "given",
    [
        {"addonName": "flying-carpet"},
        {"addonName": "vpc-cni", "addonVersion": "latest"},
        {"addonName": "vpc-cni", "configurationValues": "{"},
        {"addonName": "vpc-cni", "configurationValues": "[1]"},
    ],
)
def test_impossible_addons_are_refused(eks: Any, cluster: str, given: dict[str, str]) -> None:
    assert refused(eks.create_addon, clusterName=cluster, **given) == "InvalidParameterException"


def test_default_versions_come_with_the_kubernetes_version(eks: Any) -> None:
    [found] = eks.describe_addon_versions(addonName="kube-proxy", kubernetesVersion="1.34")["addons"]
    [version] = found["addonVersions"]
    assert version["addonVersion"].startswith("v1.34.")
    assert version["compatibilities"][0]["defaultVersion"]


def test_a_service_account_has_one_role(eks: Any, cluster: str, roles: Roles) -> None:
    account = {"clusterName": cluster, "namespace": "training", "serviceAccount": "trainer"}
    role = roles.role("pods.eks.amazonaws.com")
    made = eks.create_pod_identity_association(**account, roleArn=role)["association"]
    assert refused(eks.create_pod_identity_association, **account, roleArn=role) == "ResourceInUseException"
    found = eks.list_pod_identity_associations(clusterName=cluster, namespace="training")["associations"]
    assert [one["associationId"] for one in found] == [made["associationId"]]
    one = {"clusterName": cluster, "associationId": made["associationId"]}
    wrong = roles.role("ec2.amazonaws.com")
    assert refused(eks.update_pod_identity_association, **one, roleArn=wrong) == "InvalidParameterException"
    eks.delete_pod_identity_association(**one)
    assert refused(eks.describe_pod_identity_association, **one) == "ResourceNotFoundException"


def test_an_addons_associations_come_and_go_with_it(eks: Any, cluster: str, roles: Roles) -> None:
    addon = {"clusterName": cluster, "addonName": "aws-fsx-csi-driver"}
    identity = {"serviceAccount": "fsx-csi-controller-sa", "roleArn": roles.role("pods.eks.amazonaws.com")}
    eks.create_addon(**addon, podIdentityAssociations=[identity])
    [one] = eks.list_pod_identity_associations(clusterName=cluster)["associations"]
    assert one["namespace"] == "kube-system"
    owned = {"clusterName": cluster, "associationId": one["associationId"]}
    assert refused(eks.delete_pod_identity_association, **owned) == "InvalidRequestException"
    eventually(lambda: describe(eks, cluster, "aws-fsx-csi-driver")["status"] == "ACTIVE")
    eks.delete_addon(**addon)
    eventually(lambda: eks.list_pod_identity_associations(clusterName=cluster)["associations"] == [])
