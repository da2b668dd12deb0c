"""The plugins under the real engine: create, nothing to do, no drift, drift, edit, replace, delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.lab.providers.support import Cloud, Stack

pytestmark = pytest.mark.lab
Make = Callable[[str], Stack]


def settled(stack: Stack) -> None:
    """A second up and a refresh have nothing to do."""
    assert set(stack.up("--expect-no-changes")) == {"unchanged"}
    assert set(stack.refresh()) == {"unchanged"}


def test_network(stack: Make, cloud: Cloud) -> None:
    network = stack("network")
    made = network.up()
    assert set(made) == {"created"}
    settled(network)
    outputs = json.loads(network.run("stack", "output", "--json"))
    assert outputs["account"] == "123456789012"
    assert (outputs["region"], outputs["partition"]) == ("us-east-1", "aws")

    # Somebody tags the VPC and opens a group by hand.
    ec2, vpc = cloud.client("ec2"), outputs["vpc"]
    group = network.resource("group", "SecurityGroup")["id"]
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "by-hand", "Value": "yes"}])
    ec2.authorize_security_group_ingress(
        GroupId=group, IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0"
    )
    assert network.refresh()["updated"] == 2
    assert network.resource("vpc", "Vpc")["outputs"]["tagsAll"]["by-hand"] == "yes"
    assert network.up()["updated"] == 2
    tags = {tag["Key"] for tag in ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]}
    assert tags == {"Name", "project", "owner"}
    ports = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    assert {port.get("FromPort") for port in ports} == {443, None}

    # An edit: default tags everywhere, a retention, an endpoint's tables, and a subnet that has to move.
    network.settings["VERSION"] = "2"
    steps = network.preview()
    assert "replace" in steps["private-2"]["op"]
    assert steps["vpc"]["op"] == "update"
    assert steps["vpc"]["detailedDiff"]["tagsAll.owner"]["kind"] == "update"
    assert "tags" not in steps["vpc"]["detailedDiff"]
    changed = network.up()
    assert changed["replaced"] >= 2  # the subnet, and its route table association
    settled(network)
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]
    owners = [tag["Value"] for subnet in subnets for tag in subnet["Tags"] if tag["Key"] == "owner"]
    assert owners == ["somebody"] * 3

    network.destroy()
    assert cloud.resources() == []


def test_everything_that_is_not_network_or_kubernetes(stack: Make, cloud: Cloud) -> None:
    storage = stack("storage")
    assert set(storage.up()) == {"created"}
    settled(storage)
    assert "very-secret-indeed" not in storage.run("stack", "export")

    # A bucket with versions in it, a key that no longer rotates, a role that lost its policy.
    outputs = json.loads(storage.run("stack", "output", "--json"))
    s3 = cloud.client("s3")
    for body in (b"1", b"2"):
        s3.put_object(Bucket=outputs["bucket"], Key="a", Body=body)
    s3.delete_object(Bucket=outputs["bucket"], Key="a")
    cloud.client("kms").disable_key_rotation(KeyId=storage.resource("key", "Key")["id"])
    role = storage.resource("role", "Role")["id"]
    inline = storage.resource("inline", "RolePolicy")["outputs"]["name"]
    cloud.client("iam").delete_role_policy(RoleName=role, PolicyName=inline)
    seen = storage.refresh()
    assert (seen["updated"], seen["deleted"]) == (1, 1)
    mended = storage.up()
    assert (mended["updated"], mended["created"]) == (1, 1)
    settled(storage)

    storage.destroy()
    assert cloud.resources() == []


def test_cluster_and_pools(stack: Make, cloud: Cloud) -> None:
    training = stack("cluster")
    assert set(training.up()) == {"created"}
    settled(training)
    names = {(each["type"].rpartition(":")[2], each["urn"].rpartition("::")[2]) for each in training.state()}
    assert {
        ("ServiceRole", "training-eksRole"),
        ("Role", "training-eksRole-role"),
        ("RolePolicyAttachment", "training-eksRole-4b490823"),
        ("Cluster", "training-eksCluster"),
        ("Addon", "training-kube-proxy"),
        ("Addon", "cni"),
        ("NodeGroup", "system"),
    } <= names, "not the children that pulumi-eks makes"
    outputs = json.loads(training.run("stack", "output", "--json"))
    command = json.loads(outputs["kubeconfig"])["users"][0]["user"]["exec"]
    assert command["command"] == "aws"
    assert command["args"][:6] == ["--region", "us-east-1", "eks", "get-token", "--cluster-name", "training"]

    # The pool is scaled by hand, which is nobody's drift to undo: the program ignores it.
    eks = cloud.client("eks")
    pool = training.resource("p5", "NodeGroup")["outputs"]["nodeGroupName"]
    eks.update_nodegroup_config(
        clusterName="training",
        nodegroupName=pool,
        scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 2},
    )
    eks.get_waiter("nodegroup_active").wait(clusterName="training", nodegroupName=pool)
    assert set(training.refresh()) == {"unchanged"}
    assert set(training.up()) == {"unchanged"}

    # An edit: labels, sizes, logs, a template's disk (and so the group's version), groups of an entry.
    training.settings["VERSION"] = "2"
    steps = training.preview()
    changing = {name for name, step in steps.items() if step["op"] == "update"}
    assert {"training-eksCluster", "system", "p5", "trainer"} <= changing
    training.up()
    settled(training)
    described = eks.describe_nodegroup(clusterName="training", nodegroupName=pool)["nodegroup"]
    assert described["labels"] == {"example.com/pool": "p5", "example.com/new": "yes"}
    assert described["scalingConfig"] == {"minSize": 0, "desiredSize": 1, "maxSize": 3}
    logging = eks.describe_cluster(name="training")["cluster"]["logging"]["clusterLogging"]
    assert [group["types"] for group in logging if group["enabled"]] == [["audit"]]

    training.destroy()
    assert cloud.resources() == []


def test_names(stack: Make, cloud: Cloud) -> None:
    """A name that the program chose is freed before its replacement takes it; one made up is new."""
    small = stack("small")
    small.settings["CASE"] = "names"
    small.up()
    before = small.resource("made-up", "Role")["id"]
    small.settings["ROLE_PATH"] = "/teams/"
    assert small.up()["replaced"] == 2
    assert small.resource("mine", "Role")["id"] == "small-role"
    assert small.resource("made-up", "Role")["id"] != before
    paths = {role["RoleName"]: role["Path"] for role in cloud.client("iam").list_roles()["Roles"]}
    assert paths["small-role"] == "/teams/"
    small.destroy()
    assert cloud.resources() == []


def test_import_adopts_what_is_there(stack: Make, cloud: Cloud) -> None:
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(
        CidrBlock="10.52.0.0/16",
        TagSpecifications=[{"ResourceType": "vpc", "Tags": [{"Key": "Name", "Value": "small"}]}],
    )["Vpc"]["VpcId"]
    small = stack("small")
    small.settings.update(CASE="vpc", IMPORT=vpc)
    assert small.up()["imported"] == 1
    assert small.resource("vpc", "Vpc")["id"] == vpc
    del small.settings["IMPORT"]
    settled(small)
    ec2.delete_vpc(VpcId=vpc)
    assert small.refresh()["deleted"] == 1
    assert cloud.resources() == []


def test_secrets_stay_secret(stack: Make) -> None:
    small = stack("small")
    small.settings["CASE"] = "secret"
    small.up()
    settled(small)
    for text in (small.run("stack", "export"), small.run("stack", "output")):
        assert "very-secret-indeed" not in text
        assert "hush-hush" not in text
    assert small.run("stack", "output", "value", "--show-secrets").strip() == "very-secret-indeed"
    small.settings["VALUE"] = "another"
    assert small.up()["replaced"] == 1
    assert "another" not in small.output
    small.destroy()


def test_drift_of_a_kind_is_described(stack: Make, cloud: Cloud) -> None:
    """What a person sees of `pulumi preview --refresh`: which property, and both values."""
    small = stack("small")
    small.settings["CASE"] = "vpc"
    small.up()
    vpc: Any = small.resource("vpc", "Vpc")["id"]
    cloud.client("ec2").modify_vpc_attribute(VpcId=vpc, EnableDnsSupport={"Value": False})
    small.refresh()
    assert "enableDnsSupport" in small.output
    assert small.up()["updated"] == 1
    attribute = cloud.client("ec2").describe_vpc_attribute(VpcId=vpc, Attribute="enableDnsSupport")
    assert attribute["EnableDnsSupport"] == {"Value": True}
    small.destroy()
