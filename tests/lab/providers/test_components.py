"""The rules of the EKS components: arguments, kubeconfig, the CNI's settings."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from lab.providers.eks.arguments import Arguments
from lab.providers.eks.cluster import _read
from lab.providers.eks.kubeconfig import kubeconfig
from lab.providers.eks.vpc_cni import _configuration

LEAST = {
    "authenticationMode": "API",
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "subnetIds": ["subnet-1"],
}


def read(**inputs: Any) -> dict[str, Any]:
    return _read(Arguments("eks:index:Cluster", {**LEAST, **inputs}))


def refused(**inputs: Any) -> set[str]:
    with pytest.raises(pulumi.InputPropertiesError) as error:
        read(**inputs)
    return {each["property_path"] for each in error.value.errors or []}


def test_the_least_is_enough() -> None:
    settings = read()
    assert settings["kube-proxy"].enabled and not settings["coredns"].enabled
    assert not settings["useDefaultVpcCni"] and not settings["createInstanceRole"]


def test_everything_wrong_is_named_at_once() -> None:
    assert refused(authenticationMode="CONFIG_MAP", fargate=True, gpu=True, whatever=1) == {
        "authenticationMode",
        "fargate",
        "gpu",
        "whatever",
    }


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"skipDefaultNodeGroup": False}, "skipDefaultNodeGroup"),
        ({"createOidcProvider": True}, "createOidcProvider"),
        ({"roleMappings": [{"roleArn": "x"}]}, "roleMappings"),
        ({"corednsAddonOptions": {"versoin": "v1"}}, "corednsAddonOptions.versoin"),
        ({"vpcCniOptions": {"securityContextPrivileged": True}}, "vpcCniOptions.securityContextPrivileged"),
        ({"publicAccessCidrs": ["10.0.0.0/8"], "endpointPublicAccess": False}, "publicAccessCidrs"),
        ({"privateSubnetIds": ["subnet-2"]}, "subnetIds"),
        ({"instanceType": "m7i.large"}, "instanceType"),
        ({"storageClasses": "gp3"}, "storageClasses"),
        ({"autoMode": {"enabled": True}}, "autoMode"),
    ],
)
def test_what_it_does_not_do_is_refused(inputs: dict[str, Any], path: str) -> None:
    assert refused(**inputs) == {path}


def test_neutral_values_are_fine() -> None:
    read(createOidcProvider=False, fargate=False, roleMappings=[], gpu=False, createInstanceRole=False)


def test_kubeconfig_asks_the_aws_cli_for_a_token() -> None:
    found = kubeconfig("name", "https://10.0.0.1", "Q0E=", "us-east-1", "arn:role", None)
    assert found["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.1",
        "certificate-authority-data": "Q0E=",
    }
    command = found["users"][0]["user"]["exec"]
    assert command["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert " ".join([command["command"], *command["args"]]) == (
        "aws --region us-east-1 eks get-token --cluster-name name --output json --role arn:role"
    )
    assert found["current-context"] == found["contexts"][0]["name"]


def test_the_cnis_defaults_are_those_of_pulumi_eks() -> None:
    parts: dict[str, Any] = {"settings": {}, "early_demux": None, "policy": None, "given": {}}
    assert _configuration(parts) == {
        "env": {
            "WARM_ENI_TARGET": "1",
            "AWS_VPC_K8S_CNI_LOGLEVEL": "DEBUG",
            "AWS_VPC_K8S_CNI_LOG_FILE": "/host/var/log/aws-routed-eni/ipamd.log",
            "AWS_VPC_K8S_CNI_VETHPREFIX": "eni",
            "AWS_VPC_ENI_MTU": "9001",
            "AWS_VPC_K8S_PLUGIN_LOG_LEVEL": "DEBUG",
            "AWS_VPC_K8S_PLUGIN_LOG_FILE": "/var/log/aws-routed-eni/plugin.log",
            "ENABLE_POD_ENI": "false",
            "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "false",
            "AWS_VPC_K8S_CNI_EXTERNALSNAT": "false",
        },
        "init": {"env": {"DISABLE_TCP_EARLY_DEMUX": "false"}},
    }


def test_the_programs_own_values_win() -> None:
    parts = {
        "settings": {"ENABLE_PREFIX_DELEGATION": True, "WARM_PREFIX_TARGET": 2},
        "early_demux": True,
        "policy": True,
        "given": {"env": {"WARM_PREFIX_TARGET": "3"}, "init": {"image": "x"}},
    }
    found = _configuration(parts)
    assert found["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
    assert found["env"]["WARM_PREFIX_TARGET"] == "3"
    assert found["init"] == {"image": "x", "env": {"DISABLE_TCP_EARLY_DEMUX": "true"}}
    assert found["enableNetworkPolicy"] == "true"
