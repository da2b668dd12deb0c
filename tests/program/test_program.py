"""The whole program under mocks: what it would ask of AWS and Kubernetes, stack by stack."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.program.recording import Recording, run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pulumi_aws's older classes
STACKS = ["local", "dev", "p4de", "p5"]


@pytest.fixture
def p5() -> Recording:
    return run("p5")


@pytest.mark.parametrize(("stack", "preview"), [*((stack, False) for stack in STACKS), ("p5", True)])
def test_every_stack_runs_to_its_end(stack: str, preview: bool) -> None:
    made = run(stack, preview=preview).made
    assert Counter((one.type, one.name) for one in made).most_common(1)[0][1] == 1, (
        "two resources share a name"
    )
    assert len(made) > 100


def test_nothing_is_looked_up_but_the_account_and_zone_names(p5: Recording) -> None:
    assert p5.looked_up == {
        "aws:index/getAvailabilityZones:getAvailabilityZones",
        "aws:index/getCallerIdentity:getCallerIdentity",
    }


def test_pools_follow_their_settings(p5: Recording) -> None:
    group = p5.of("eks/nodeGroup:NodeGroup")["shardyard-p5-p5"]
    assert group["scalingConfig"] == {"minSize": 0, "desiredSize": 16, "maxSize": 16}
    assert group["amiType"] == "AL2023_x86_64_NVIDIA"
    assert group["releaseVersion"] == "1.34.9-20260801"
    assert group["version"] == "1.34"
    assert group["capacityType"] == "ON_DEMAND"
    assert group["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
    assert group["subnetIds"] == ["shardyard-p5-private-use1-az6-id"]
    assert group["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    assert "nodeGroupName" not in group, "a fixed name can't be replaced"
    assert "instanceTypes" not in group, "the template says which"


def test_templates_use_the_stack_s_own_reservation(p5: Recording) -> None:
    template = p5.of("LaunchTemplate")["shardyard-p5-p5"]
    assert template["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationId": "shardyard-p5-p5-id"},
    }
    kinds = Counter(one["interfaceType"] for one in template["networkInterfaces"])
    assert kinds == {"interface": 1, "efa-only": 32}
    assert template["networkInterfaces"][0]["securityGroups"] == ["sg-cluster", "shardyard-p5-efa-id"]
    assert b"RAID0" in base64.b64decode(template["userData"])
    reservation = p5.of("CapacityReservation")["shardyard-p5-p5"]
    assert reservation["instanceMatchCriteria"] == "targeted"
    assert reservation["instanceCount"] == 16
    assert reservation["availabilityZone"] == "name-of-use1-az6"


def test_efa_s_group_lets_members_reach_each_other_both_ways(p5: Recording) -> None:
    for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        (rule,) = [r for name, r in p5.of(kind).items() if "-efa-" in name]
        assert rule["ipProtocol"] == "-1"
        assert rule["referencedSecurityGroupId"] == rule["securityGroupId"] == "shardyard-p5-efa-id"


def test_the_control_plane_has_no_defaults_of_the_component(p5: Recording) -> None:
    asked = p5.cluster
    assert asked["version"] == "1.34"
    assert asked["authentication_mode"] == "API"
    assert asked["skip_default_node_group"] is True
    assert asked["use_default_vpc_cni"] is True
    assert asked["bootstrap_self_managed_addons"] is False
    assert asked["create_oidc_provider"] is False
    assert asked["kube_proxy_addon_options"].enabled is False
    assert asked["coredns_addon_options"].enabled is False


def test_every_add_on_is_there_once_at_its_pinned_version(p5: Recording) -> None:
    versions = {inputs["addonName"]: inputs["addonVersion"] for inputs in p5.of("eks:index:Addon").values()}
    assert versions == {
        "vpc-cni": "v1.22.4-eksbuild.3",
        "kube-proxy": "v1.34.6-eksbuild.21",
        "coredns": "v1.12.4-eksbuild.29",
        "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
        "aws-fsx-csi-driver": "v1.9.0-eksbuild.1",
    }
    assert all(inputs["preserve"] is False for inputs in p5.of("eks:index:Addon").values())


def test_buckets_are_private_encrypted_and_versioned(p5: Recording) -> None:
    names = set(p5.of("s3/bucket:Bucket"))
    assert names == {"shardyard-p5-data", "shardyard-p5-checkpoints"}
    blocks = p5.of("BucketPublicAccessBlock")
    assert set(blocks) == names
    switches = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    assert all(block[switch] is True for block in blocks.values() for switch in switches)
    for kind in (
        "BucketServerSideEncryptionConfiguration",
        "BucketVersioning",
        "BucketOwnershipControls",
        "BucketPolicy",
    ):
        assert set(p5.of(kind)) == names
    for policy in p5.of("BucketPolicy").values():
        (statement,) = json.loads(policy["policy"])["Statement"]
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


STORES = ("aws:s3/", "aws:ecr/", "aws:kms/")
"""Services of what is kept: data, images and keys."""
USERS = {
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
    "aws:iam/rolePolicy:RolePolicy",
    "kubernetes:kubeflow.org/v1:PyTorchJob",
    "pulumi-python:dynamic/shardyard:BuiltImage",
}
"""Types that use what is kept and protect nothing of it: they go with the stack."""


@pytest.mark.parametrize("stack", STACKS)
def test_data_outlives_the_stack_with_everything_that_protects_it(stack: str) -> None:
    options = run(stack, delete_data=False).options
    holders = ("aws:s3/bucket:Bucket", "aws:ecr/repository:Repository")
    data = {urn for urn, one in options.items() if one.type in holders}
    assert len(data) == 3
    about_data = {urn for urn, one in options.items() if one.refers_to & data}
    kept = data | {urn for urn in about_data if options[urn].type not in USERS}
    assert len(kept) == 3 + 2 * 6 + 1, "of each bucket six parts, of the repository one"
    assert all(options[urn].type.startswith(STORES) for urn in kept)
    assert kept == {urn for urn, one in options.items() if one.retained}
    needed = {source for urn in kept for source in options[urn].refers_to}
    assert needed <= kept, "what is kept can be read without anything that is deleted (a key)"


def test_what_is_kept_is_named_and_marked_and_not_emptied() -> None:
    recording = run("p5", delete_data=False)
    held = [*recording.of("s3/bucket:Bucket").values(), *recording.of("ecr/repository:Repository").values()]
    assert [one["tags"]["shardyard:on-destroy"] for one in held] == ["keep"] * 3
    assert not any(one.get("forceDestroy") or one.get("forceDelete") for one in held)
    assert len(recording.outputs["keptOnDestroy"]) == 3
    assert all(arn.startswith("arn:") for arn in recording.outputs["keptOnDestroy"])


@pytest.mark.parametrize("stack", STACKS)
def test_deleting_data_has_to_be_asked_for_and_then_keeps_nothing(stack: str) -> None:
    recording = run(stack, delete_data=True)
    assert not [one for one in recording.options.values() if one.retained]
    assert all(one["forceDestroy"] is True for one in recording.of("s3/bucket:Bucket").values())
    (repository,) = recording.of("ecr/repository:Repository").values()
    assert repository["forceDelete"] is True
    assert recording.outputs["keptOnDestroy"] == []
    tagged = [*recording.of("s3/bucket:Bucket").values(), repository]
    assert all("shardyard:on-destroy" not in one["tags"] for one in tagged)


def test_only_the_local_stack_deletes_data() -> None:
    assert {stack for stack in STACKS if run(stack).outputs["keptOnDestroy"] == []} == {"local"}


def test_names_of_what_is_kept_are_free_for_the_next_stack(p5: Recording) -> None:
    """AWS or the engine completes them, so that a rebuild doesn't find its own name taken."""
    assert all("bucket" not in one for one in p5.of("s3/bucket:Bucket").values())
    assert all("name" not in one for one in p5.of("ecr/repository:Repository").values())


def test_associations_import_data_and_export_jobs_without_deleting(p5: Recording) -> None:
    found = p5.of("DataRepositoryAssociation")
    data, jobs = found["shardyard-p5-data"], found["shardyard-p5-jobs"]
    assert data["fileSystemPath"] == "/data"
    assert data["s3"] == {"autoImportPolicy": {"events": ["NEW", "CHANGED", "DELETED"]}}
    assert jobs["fileSystemPath"] == "/jobs"
    assert jobs["s3"] == {"autoExportPolicy": {"events": ["NEW", "CHANGED"]}}


def test_lustre_ports_are_open_both_ways_and_no_others(p5: Recording) -> None:
    ways = {
        (rule["securityGroupId"], rule["referencedSecurityGroupId"], rule["fromPort"], rule["toPort"])
        for name, rule in p5.of("SecurityGroupIngressRule").items()
        if "-lustre-" in name
    }
    servers, clients = "shardyard-p5-lustre-id", "sg-cluster"
    pairs = [(servers, servers), (servers, clients), (clients, servers)]
    assert ways == {
        (owner, peer, first, last) for owner, peer in pairs for first, last in ((988, 988), (1018, 1023))
    }


def statements(recording: Recording) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for kind in ("iam/rolePolicy:RolePolicy", "iam/policy:Policy"):
        for name, inputs in recording.of(kind).items():
            found += [(name, statement) for statement in json.loads(inputs["policy"])["Statement"]]
    return found


def test_no_wildcard_action_and_no_wildcard_resource_but_one(p5: Recording) -> None:
    assert statements(p5)
    for name, statement in statements(p5):
        assert all("*" not in action for action in statement["Action"]), name
        if "*" in statement["Resource"]:
            assert statement["Action"] == ["ecr:GetAuthorizationToken"], (
                "IAM knows no narrower resource for it"
            )


def test_training_pods_read_data_and_write_checkpoints_only(p5: Recording) -> None:
    writes = {"s3:PutObject", "s3:DeleteObject"}
    written = [
        resource
        for name, statement in statements(p5)
        if name == "shardyard-p5-trainer-pods" and writes & set(statement["Action"])
        for resource in statement["Resource"]
    ]
    assert written
    assert all(":shardyard-p5-checkpoints/" in resource for resource in written)
    trust = json.loads(p5.of("iam/role:Role")["shardyard-p5-trainer-pods"]["assumeRolePolicy"])["Statement"][
        0
    ]
    assert trust["Principal"] == {"Service": ["pods.eks.amazonaws.com"]}
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    (association,) = p5.of("PodIdentityAssociation").values()
    assert (association["namespace"], association["serviceAccount"]) == ("training", "trainer")


def test_personas_come_in_by_access_entries(p5: Recording) -> None:
    entries = p5.of("AccessEntry")
    assert set(entries) == {f"shardyard-p5-{persona}" for persona in ("admin", "trainer", "viewer", "ci")}
    assert entries["shardyard-p5-trainer"]["kubernetesGroups"] == ["shardyard:trainers"]
    policies = {n: i["policyArn"].rpartition("/")[2] for n, i in p5.of("AccessPolicyAssociation").items()}
    assert policies == {
        "shardyard-p5-admin": "AmazonEKSClusterAdminPolicy",
        "shardyard-p5-viewer": "AmazonEKSViewPolicy",
    }


def test_only_the_volume_s_names_are_real_ones(p5: Recording) -> None:
    (volume,) = p5.of("core/v1:PersistentVolume").values()
    assert volume["spec"]["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": "shardyard-p5-lustre-id",
        "volumeAttributes": {"dnsname": "fs.example.com", "mountname": "abc"},
    }
    (claim,) = p5.of("core/v1:PersistentVolumeClaim").values()
    assert claim["spec"]["storageClassName"] == ""
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]


def test_the_job_runs_the_built_image_by_digest(p5: Recording) -> None:
    (job,) = p5.of("kubeflow.org/v1:PyTorchJob").values()
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 16
    (container,) = worker["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.com/trainer@sha256:{'c' * 64}"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert container["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
    (config,) = [m for name, m in p5.of("core/v1:ConfigMap").items() if name == "llama2-70b-config"]
    assert config["data"]["job.yaml"].startswith("# Llama 2")


def test_a_preparation_is_a_component_and_goes_before_the_file_system() -> None:
    recording = run("p5", preparing=True)
    (job,) = recording.of("batch/v1:Job").values()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/trainer@sha256:")
    (options,) = [one for one in recording.options.values() if one.type == "kubernetes:batch/v1:Job"]
    assert options.parent.endswith("shardyard:workloads:DataPreparation::corpus")
    assert options.deleted_with == "", (
        "with the cluster, its pods would still hold the file system when that goes"
    )


@pytest.mark.parametrize("stack", STACKS)
def test_every_object_is_spelt_as_kubernetes_spells_it(stack: str) -> None:
    objects = [one for one in run(stack).made if one.type.startswith("kubernetes:")]
    assert len(objects) > 20
    for one in objects:
        assert not [key for key in _keys(one.inputs) if "_" in key], one.name


def _keys(value: Any) -> Iterator[str]:
    """Of all mappings but those whose keys are the user's."""
    if isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield key
        if key not in ("annotations", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests"):
            yield from _keys(inner)


def test_one_nat_or_one_for_each_zone() -> None:
    assert len(run("p5").of("NatGateway")) == 2
    assert len(run("local").of("NatGateway")) == 1


def test_public_subnets_are_for_the_nat_alone(p5: Recording) -> None:
    public = {f"{name}-id" for name in p5.of("ec2/subnet:Subnet") if "-public-" in name}
    assert len(public) == 2
    users = [
        one.name
        for one in p5.made
        if one.type != "aws:ec2/routeTableAssociation:RouteTableAssociation" and public & _words(one.inputs)
    ]
    assert sorted(users) == ["shardyard-p5-nat-use1-az4", "shardyard-p5-nat-use1-az6"]


def _words(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {word for inner in value.values() for word in _words(inner)}
    if isinstance(value, list):
        return {word for inner in value for word in _words(inner)}
    return {value} if isinstance(value, str) else set()
