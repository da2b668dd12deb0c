"""EKS clusters: coming up, being changed and going away."""

from __future__ import annotations

from typing import Any

from tests.lab.aws.support import Emulator, Network, RecordingRuntime, Roles, refused
from tests.waiting import eventually


def test_a_cluster_comes_up_with_the_runtimes_endpoint(
    eks: Any, cluster: str, runtime: RecordingRuntime
) -> None:
    found = eks.describe_cluster(name=cluster)["cluster"]
    assert found["endpoint"] == "https://127.0.0.1:6443"
    assert found["certificateAuthority"] == {"data": "Q0E="}
    assert found["version"] == "1.34"
    assert cluster in runtime.clusters
    assert cluster in eks.list_clusters()["clusters"]


def test_its_network_is_there_while_it_lives(ec2: Any, eks: Any, cluster: str, network: Network) -> None:
    group = eks.describe_cluster(name=cluster)["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    [described] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    rules = [*described["IpPermissions"], *described["IpPermissionsEgress"]]
    assert [rule["UserIdGroupPairs"][0]["GroupId"] for rule in rules if rule["UserIdGroupPairs"]] == [
        group,
        group,
    ]
    wanted = [{"Name": "description", "Values": [f"Amazon EKS {cluster}"]}]
    interfaces = ec2.describe_network_interfaces(Filters=wanted)["NetworkInterfaces"]
    assert {one["SubnetId"] for one in interfaces} == set(network.subnets)
    assert refused(ec2.delete_subnet, SubnetId=network.subnets[0]) == "DependencyViolation"
    eks.delete_cluster(name=cluster)
    eventually(lambda: cluster not in eks.list_clusters()["clusters"])
    for subnet in network.subnets:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_security_group(GroupId=network.group)
    ec2.delete_vpc(VpcId=network.vpc)


def test_a_cluster_that_does_not_come_up_says_why(
    eks: Any, network: Network, roles: Roles, runtime: RecordingRuntime
) -> None:
    runtime.failing["create_cluster"] = "etcd is missing"
    name = f"broken-{network.vpc}"
    subnets = {"subnetIds": network.subnets}
    eks.create_cluster(name=name, roleArn=roles.role("eks.amazonaws.com"), resourcesVpcConfig=subnets)
    eventually(lambda: eks.describe_cluster(name=name)["cluster"]["status"] == "FAILED")
    [issue] = eks.describe_cluster(name=name)["cluster"]["health"]["issues"]
    assert "etcd is missing" in issue["message"]


def test_impossible_clusters_are_refused(
    ec2: Any, eks: Any, network: Network, roles: Roles, cluster: str
) -> None:
    role = roles.role("eks.amazonaws.com")

    def code(
        name: str = "no", role: str = role, version: str = "1.34", subnets: list[str] = network.subnets
    ) -> str:
        wanted = {
            "name": name,
            "roleArn": role,
            "version": version,
            "resourcesVpcConfig": {"subnetIds": subnets},
        }
        return refused(eks.create_cluster, **wanted)

    assert code(name=cluster) == "ResourceInUseException"
    assert code(role=f"{role}-not") == "InvalidParameterException"
    assert code(role=roles.role("ec2.amazonaws.com")) == "InvalidParameterException"
    assert code(version="1.19") == "InvalidParameterException"
    assert code(subnets=network.subnets[:1]) == "InvalidParameterException"
    block = ec2.describe_subnets(SubnetIds=network.subnets[:1])["Subnets"][0]["CidrBlock"].replace(
        ".0.0/24", ".9.0/24"
    )
    far = ec2.create_subnet(VpcId=network.vpc, CidrBlock=block, AvailabilityZoneId="use1-az3")["Subnet"][
        "SubnetId"
    ]
    assert code(subnets=[network.subnets[0], far]) == "UnsupportedAvailabilityZoneException"


def test_its_configuration_changes_one_kind_at_a_time(eks: Any, cluster: str) -> None:
    logging = {"clusterLogging": [{"types": ["api", "audit"], "enabled": True}]}
    update = eks.update_cluster_config(name=cluster, logging=logging)["update"]
    assert eks.describe_update(name=cluster, updateId=update["id"])["update"]["status"] == "Successful"
    eks.update_cluster_config(
        name=cluster, logging={"clusterLogging": [{"types": ["api"], "enabled": False}]}
    )
    setups = eks.describe_cluster(name=cluster)["cluster"]["logging"]["clusterLogging"]
    assert [one["types"] for one in setups if one["enabled"]] == [["audit"]]
    both = {"logging": logging, "resourcesVpcConfig": {"endpointPrivateAccess": True}}
    assert refused(eks.update_cluster_config, name=cluster, **both) == "InvalidParameterException"
    eks.update_cluster_config(name=cluster, resourcesVpcConfig={"endpointPrivateAccess": True})
    assert eks.describe_cluster(name=cluster)["cluster"]["resourcesVpcConfig"]["endpointPrivateAccess"]
    back = {"accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}}
    assert refused(eks.update_cluster_config, name=cluster, **back) == "InvalidParameterException"


def test_the_control_planes_log_group_outlives_it(
    emulator: Emulator, eks: Any, network: Network, roles: Roles, runtime: RecordingRuntime
) -> None:
    name, logs = f"logged-{network.vpc}", emulator.client("logs")
    eks.create_cluster(
        name=name,
        roleArn=roles.role("eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": network.subnets},
        logging={"clusterLogging": [{"types": ["api"], "enabled": True}]},
    )
    eventually(lambda: eks.describe_cluster(name=name)["cluster"]["status"] == "ACTIVE")
    eks.delete_cluster(name=name)
    eventually(lambda: name not in eks.list_clusters()["clusters"])
    assert len(logs.describe_log_groups(logGroupNamePrefix=f"/aws/eks/{name}/cluster")["logGroups"]) == 1


def test_versions_go_up_one_by_one(eks: Any, cluster: str) -> None:
    assert refused(eks.update_cluster_version, name=cluster, version="1.33") == "InvalidParameterException"
    eks.update_cluster_version(name=cluster, version="1.35")
    assert eks.describe_cluster(name=cluster)["cluster"]["version"] == "1.35"


def test_deletion_protection_protects(eks: Any, cluster: str) -> None:
    eks.update_cluster_config(name=cluster, deletionProtection=True)
    assert refused(eks.delete_cluster, name=cluster) == "InvalidRequestException"
    eks.update_cluster_config(name=cluster, deletionProtection=False)
    eks.delete_cluster(name=cluster)


def test_tags_of_whatever_has_an_arn(eks: Any, cluster: str) -> None:
    arn = eks.describe_cluster(name=cluster)["cluster"]["arn"]
    eks.tag_resource(resourceArn=arn, tags={"a": "b", "c": "d"})
    eks.untag_resource(resourceArn=arn, tagKeys=["a"])
    assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"c": "d"}
    assert refused(eks.tag_resource, resourceArn=f"{arn}x", tags={"a": "b"}) == "NotFoundException"


def test_image_parameters_are_the_same_today_and_tomorrow(emulator: Emulator) -> None:
    ssm = emulator.client("ssm")
    folder = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia"
    named = f"{folder}/amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260801/image_id"
    recommended = ssm.get_parameter(Name=f"{folder}/recommended/image_id")["Parameter"]["Value"]
    assert ssm.get_parameter(Name=named)["Parameter"]["Value"] == recommended
    assert (
        ssm.get_parameter(Name=f"{folder}/recommended/release_version")["Parameter"]["Value"]
        == "1.34.9-20260801"
    )
    assert refused(ssm.get_parameter, Name=f"{folder}/newest/image_id") == "ParameterNotFound"
