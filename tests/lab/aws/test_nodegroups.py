"""Node groups: their instances, their nodes, and what goes wrong with them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lab.nodes.registration.node_object import labels as node_labels
from tests.lab.aws.support import REGION, Network, RecordingRuntime, Roles, refused
from tests.lab.aws.test_capacity import efa_interfaces, reserve, target, template
from tests.lab.aws.test_node_config import config, multipart
from tests.waiting import eventually


class Groups:
    """Node groups of one cluster."""

    def __init__(self, eks: Any, cluster: str, network: Network, roles: Roles) -> None:
        self.eks, self.cluster, self.network, self.roles = eks, cluster, network, roles

    def settings(self, name: str, count: int = 1, **given: Any) -> dict[str, Any]:
        defaults = {
            "clusterName": self.cluster,
            "nodegroupName": name,
            "subnets": self.network.subnets,
            "nodeRole": self.roles.role("ec2.amazonaws.com"),
            "scalingConfig": {"minSize": 0, "maxSize": 8, "desiredSize": count},
        }
        return defaults | given

    def create(self, name: str, count: int = 1, status: str = "ACTIVE", **given: Any) -> dict[str, Any]:
        self.eks.create_nodegroup(**self.settings(name, count, **given))
        return self.wait(name, status)

    def describe(self, name: str) -> dict[str, Any]:
        return dict(self.eks.describe_nodegroup(clusterName=self.cluster, nodegroupName=name)["nodegroup"])

    def wait(self, name: str, status: str = "ACTIVE") -> dict[str, Any]:
        eventually(lambda: self.describe(name)["status"] == status)
        return self.describe(name)

    def delete(self, name: str) -> None:
        self.eks.delete_nodegroup(clusterName=self.cluster, nodegroupName=name)
        listed = lambda: self.eks.list_nodegroups(clusterName=self.cluster)["nodegroups"]  # noqa: E731
        eventually(lambda: name not in listed())

    def update(self, name: str, **changes: Any) -> dict[str, Any]:
        """A change of configuration or version, once it is over."""
        call = (
            self.eks.update_nodegroup_version
            if "launchTemplate" in changes
            else self.eks.update_nodegroup_config
        )
        update = call(clusterName=self.cluster, nodegroupName=name, **changes)["update"]["id"]

        def described() -> dict[str, Any]:
            found = self.eks.describe_update(name=self.cluster, nodegroupName=name, updateId=update)
            return dict(found["update"])

        eventually(lambda: described()["status"] != "InProgress")
        return described()


@pytest.fixture
def groups(eks: Any, cluster: str, network: Network, roles: Roles) -> Groups:
    return Groups(eks, cluster, network, roles)


def instances(ec2: Any, groups: Groups, name: str) -> list[dict[str, Any]]:
    filters = [
        {"Name": "tag:eks:nodegroup-name", "Values": [name]},
        {"Name": "tag:eks:cluster-name", "Values": [groups.cluster]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    found = ec2.describe_instances(Filters=filters)["Reservations"]
    return [one for reservation in found for one in reservation["Instances"]]


def accelerated(ec2: Any, network: Network, name: str, reservation: str) -> dict[str, str]:
    """The launch template of a p5 pool on a reservation."""
    made = template(
        ec2,
        network,
        name,
        InstanceType="p5.48xlarge",
        NetworkInterfaces=efa_interfaces(32),
        CapacityReservationSpecification=target(reservation),
    )
    return {"id": made, "version": "1"}


def test_nodes_have_what_eks_gives_them(ec2: Any, groups: Groups, runtime: RecordingRuntime) -> None:
    groups.create(
        "system",
        count=2,
        instanceTypes=["m5.xlarge"],
        labels={"pool": "system"},
        taints=[{"key": "dedicated", "value": "system", "effect": "NO_SCHEDULE"}],
        tags={"lab:kubelet": "real"},
    )
    launched = {one["PrivateDnsName"]: one for one in instances(ec2, groups, "system")}
    assert {one["SubnetId"] for one in launched.values()} == set(groups.network.subnets)
    nodes = runtime.clusters[groups.cluster]
    assert set(nodes) == set(launched)
    node = next(iter(nodes.values()))
    subnet = launched[node.name]["SubnetId"]
    [described] = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    assert (
        node_labels(node).items()
        >= {
            "pool": "system",
            "eks.amazonaws.com/nodegroup": "system",
            "eks.amazonaws.com/capacityType": "ON_DEMAND",
            "node.kubernetes.io/instance-type": "m5.xlarge",
            "topology.kubernetes.io/region": REGION,
            "topology.kubernetes.io/zone": described["AvailabilityZone"],
            "topology.k8s.aws/zone-id": described["AvailabilityZoneId"],
        }.items()
    )
    assert [(one.key, one.value, one.effect) for one in node.taints] == [
        ("dedicated", "system", "NoSchedule")
    ]
    assert (node.real, node.devices) == (True, {})
    assert node.resources == {"ephemeral-storage": str(int(20 * 2**30 * 0.9) - 2**30)}
    assert (node.cpu, node.pods) == ("3920m", 58)  # as EKS's own table says for m5.xlarge


def test_a_p5_pool_gets_gpus_efa_and_the_allocatable_of_its_type(
    ec2: Any, groups: Groups, runtime: RecordingRuntime
) -> None:
    reservation = reserve(ec2, count=2)
    launch_template = accelerated(ec2, groups.network, "p5", reservation)
    found = groups.create("p5", count=2, launchTemplate=launch_template, amiType="AL2023_x86_64_NVIDIA")
    assert found["launchTemplate"]["version"] == "1"
    assert "instanceTypes" not in found
    node = next(iter(runtime.clusters[groups.cluster].values()))
    assert node.devices == {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
    assert (node.cpu, node.memory, node.resources) == (
        "191450m",
        "2052371068Ki",
        {"hugepages-2Mi": "42242Mi", "ephemeral-storage": str(int(20 * 2**30 * 0.9) - 2**30)},
    )
    assert not node.real
    assert {one["CapacityReservationId"] for one in instances(ec2, groups, "p5")} == {reservation}
    [one, _] = instances(ec2, groups, "p5")
    cluster_group = groups.eks.describe_cluster(name=groups.cluster)["cluster"]["resourcesVpcConfig"]
    assert one["NetworkInterfaces"][1]["Groups"][0]["GroupId"] == cluster_group["clusterSecurityGroupId"]
    groups.delete("p5")
    [left] = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"]
    assert left["AvailableInstanceCount"] == 2


def test_user_data_sets_pods_labels_and_the_instance_store(
    ec2: Any, groups: Groups, runtime: RecordingRuntime
) -> None:
    kubelet = {"config": {"maxPods": 110}, "flags": ["--node-labels=team=research"]}
    data = multipart(config(kubelet=kubelet, instance={"localStorage": {"strategy": "RAID0"}}))
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}
    made = template(
        ec2,
        groups.network,
        "configured",
        InstanceType="m5d.large",
        UserData=data,
        BlockDeviceMappings=[disk],
    )
    groups.create("configured", launchTemplate={"id": made}, labels={"pool": "p"})
    [node] = runtime.clusters[groups.cluster].values()
    assert node.pods == 110
    assert node.labels["team"] == "research"
    assert node.labels["pool"] == "p"
    assert node.resources == {"ephemeral-storage": str(int(75 * 10**9 * 0.9) - 2**30)}


@pytest.mark.parametrize(
    "data", [base64.b64encode(b"#!/bin/sh").decode(), multipart(("application/node.eks.aws", "{"))]
)
def test_user_data_that_no_node_starts_with_fails_the_group(ec2: Any, groups: Groups, data: str) -> None:
    made = template(ec2, groups.network, "broken", InstanceType="m5.large", UserData=data)
    found = groups.create("broken", status="CREATE_FAILED", launchTemplate={"id": made})
    [issue] = found["health"]["issues"]
    assert issue["code"] == "Ec2LaunchTemplateInvalidConfiguration"
    assert instances(ec2, groups, "broken") == []


def test_a_group_whose_instances_cannot_be_had_fails_as_a_whole(ec2: Any, groups: Groups) -> None:
    reservation = reserve(ec2, count=1)
    launch_template = accelerated(ec2, groups.network, "short", reservation)
    found = groups.create("short", count=2, status="CREATE_FAILED", launchTemplate=launch_template)
    [issue] = found["health"]["issues"]
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert "ReservationCapacityExceeded" in issue["message"]
    groups.delete("short")
    assert instances(ec2, groups, "short") == []


def test_a_pool_in_the_wrong_zone_finds_no_capacity(ec2: Any, groups: Groups) -> None:
    reservation = reserve(ec2, count=1)
    launch_template = accelerated(ec2, groups.network, "astray", reservation)
    found = groups.create(
        "astray", subnets=groups.network.subnets[1:], status="CREATE_FAILED", launchTemplate=launch_template
    )
    assert "ReservationCapacityExceeded" in found["health"]["issues"][0]["message"]


def test_too_many_efa_interfaces_fail_the_group(ec2: Any, groups: Groups) -> None:
    made = template(
        ec2, groups.network, "many", InstanceType="p4de.24xlarge", NetworkInterfaces=efa_interfaces(8)
    )
    subnet = groups.network.subnets[:1]
    found = groups.create(
        "many", subnets=subnet, status="CREATE_FAILED", launchTemplate={"id": made, "version": "1"}
    )
    assert "AttachmentLimitExceeded" in found["health"]["issues"][0]["message"]


def test_nodes_that_do_not_join_fail_the_group(groups: Groups, runtime: RecordingRuntime) -> None:
    runtime.failing["add_nodes"] = "kubelet did not start"
    found = groups.create("absent", status="CREATE_FAILED", instanceTypes=["m5.large"])
    [issue] = found["health"]["issues"]
    assert (issue["code"], "kubelet did not start" in issue["message"]) == ("NodeCreationFailure", True)
    assert issue["resourceIds"]


def test_scaling_drains_before_it_terminates(ec2: Any, groups: Groups, runtime: RecordingRuntime) -> None:
    groups.create("elastic", count=1, instanceTypes=["m5.large"])
    assert groups.update("elastic", scalingConfig={"desiredSize": 3})["status"] == "Successful"
    assert len(instances(ec2, groups, "elastic")) == 3
    before = len(runtime.calls)
    groups.update("elastic", scalingConfig={"desiredSize": 0}, labels={"addOrUpdateLabels": {"a": "b"}})
    assert "remove_nodes" in runtime.calls[before:]
    assert instances(ec2, groups, "elastic") == []
    assert groups.describe("elastic")["labels"] == {"a": "b"}


def test_changed_labels_and_taints_reach_the_nodes(groups: Groups, runtime: RecordingRuntime) -> None:
    groups.create("marked", instanceTypes=["m5.large"], labels={"old": "1"})
    taint = {"key": "busy", "value": "1", "effect": "NO_EXECUTE"}
    groups.update(
        "marked",
        labels={"removeLabels": ["old"], "addOrUpdateLabels": {"new": "2"}},
        taints={"addOrUpdateTaints": [taint]},
    )
    [node] = runtime.clusters[groups.cluster].values()
    assert "old" not in node.labels
    assert node.labels["new"] == "2"
    assert [one.effect for one in node.taints] == ["NoExecute"]


def test_a_full_reservation_can_be_updated_only_in_place(ec2: Any, groups: Groups) -> None:
    reservation = reserve(ec2, count=1)
    launch_template = accelerated(ec2, groups.network, "full", reservation)
    groups.create("full", launchTemplate=launch_template)
    ec2.create_launch_template_version(
        LaunchTemplateId=launch_template["id"], SourceVersion="1", LaunchTemplateData={"EbsOptimized": True}
    )
    second = launch_template | {"version": "2"}
    [old] = instances(ec2, groups, "full")
    failed = groups.update("full", launchTemplate=second)
    assert failed["status"] == "Failed"
    assert "ReservationCapacityExceeded" in failed["errors"][0]["errorMessage"]
    assert [one["InstanceId"] for one in instances(ec2, groups, "full")] == [old["InstanceId"]]
    groups.update("full", updateConfig={"maxUnavailable": 1, "updateStrategy": "MINIMAL"})
    assert groups.update("full", launchTemplate=second)["status"] == "Successful"
    [new] = instances(ec2, groups, "full")
    assert new["InstanceId"] != old["InstanceId"]


def test_a_deleted_launch_template_fails_the_update_and_not_the_group_for_ever(
    ec2: Any, groups: Groups
) -> None:
    made = template(ec2, groups.network, "gone", InstanceType="m5.large")
    groups.create("gone", launchTemplate={"id": made, "version": "1"})
    ec2.delete_launch_template(LaunchTemplateId=made)
    update = groups.update("gone", scalingConfig={"desiredSize": 2})
    assert update["status"] == "Failed"
    assert made in update["errors"][0]["errorMessage"]
    groups.delete("gone")


def test_a_lost_instance_is_replaced(ec2: Any, groups: Groups, runtime: RecordingRuntime) -> None:
    groups.create("lossy", instanceTypes=["m5.large"])
    [old] = instances(ec2, groups, "lossy")
    ec2.terminate_instances(InstanceIds=[old["InstanceId"]])
    eventually(
        lambda: (
            [one["InstanceId"] for one in instances(ec2, groups, "lossy")] not in ([], [old["InstanceId"]])
        )
    )
    [new] = eventually(lambda: list(runtime.clusters[groups.cluster].values()))
    assert new.instance_id == instances(ec2, groups, "lossy")[0]["InstanceId"]


def test_a_group_deleted_while_it_comes_up_leaves_nothing(
    ec2: Any, groups: Groups, runtime: RecordingRuntime
) -> None:
    runtime.gate.clear()
    groups.eks.create_nodegroup(**groups.settings("hasty", count=2, instanceTypes=["m5.large"]))
    eventually(lambda: len(instances(ec2, groups, "hasty")) == 2)
    groups.eks.delete_nodegroup(clusterName=groups.cluster, nodegroupName="hasty")
    runtime.gate.set()
    eventually(lambda: groups.eks.list_nodegroups(clusterName=groups.cluster)["nodegroups"] == [])
    assert instances(ec2, groups, "hasty") == []
    assert runtime.clusters[groups.cluster] == {}


def test_a_cluster_with_groups_stays(eks: Any, groups: Groups) -> None:
    groups.create("last", instanceTypes=["m5.large"])
    assert refused(eks.delete_cluster, name=groups.cluster) == "ResourceInUseException"
    assert refused(eks.create_nodegroup, **groups.settings("last")) == "ResourceInUseException"


def test_the_nodes_role_has_an_entry_while_a_group_has_it(
    eks: Any, groups: Groups, runtime: RecordingRuntime
) -> None:
    role = groups.roles.role("ec2.amazonaws.com")
    groups.create("only", instanceTypes=["m5.large"])
    entry = eks.describe_access_entry(clusterName=groups.cluster, principalArn=role)["accessEntry"]
    assert (entry["type"], entry["kubernetesGroups"]) == ("EC2_LINUX", ["system:nodes"])
    assert role in [one.principal_arn for one in runtime.access[groups.cluster]]
    groups.delete("only")
    eventually(lambda: role not in [one.principal_arn for one in runtime.access[groups.cluster]])


PROFILE = {"IamInstanceProfile": {"Name": "x"}}
BLOCK = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}


@pytest.mark.parametrize(
    ("data", "given"),
    [
        (None, {"instanceTypes": ["p9.huge"]}),
        (None, {"subnets": ["subnet-0123456789abcdef0"]}),
        (None, {"scalingConfig": {"minSize": 2, "maxSize": 1, "desiredSize": 1}}),
        (None, {"version": "1.35"}),
        (None, {"amiType": "WINDOWS_95"}),
        (None, {"nodeRole": "no-arn"}),
        (None, {"taints": [{"key": "a", "effect": "NO_SCHEDULE"}] * 51}),
        ({"InstanceType": "m5.large"}, {"instanceTypes": ["m5.large"]}),
        ({"InstanceType": "m5.large"}, {"diskSize": 100}),
        ({"InstanceType": "m5.large", **PROFILE}, {}),
        ({"InstanceType": "m5.large", "ImageId": "ami-1"}, {"amiType": "AL2023_x86_64_STANDARD"}),
        ({"InstanceType": "m5.large", "ImageId": "ami-1"}, {"releaseVersion": "1.34.4-20260901"}),
        ({"InstanceType": "m5.large"}, {"amiType": "CUSTOM"}),
        ({"InstanceType": "m5.large", **BLOCK}, {}),
        ({"InstanceType": "m5.large"}, {"capacityType": "CAPACITY_BLOCK"}),
        ({"InstanceType": "m5.large", **BLOCK}, {"capacityType": "CAPACITY_BLOCK"}),
    ],
)
def test_impossible_groups_are_refused(
    ec2: Any, eks: Any, groups: Groups, data: dict[str, Any] | None, given: dict[str, Any]
) -> None:
    if data:
        made = template(ec2, groups.network, "wrong", **data)
        given = given | {"launchTemplate": {"id": made}}
    assert refused(eks.create_nodegroup, **groups.settings("wrong", **given)) == "InvalidParameterException"
