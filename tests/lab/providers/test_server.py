"""The servicer over gRPC, as the engine calls it, as far as that needs no AWS."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from lab.providers.aws.__main__ import serve
from lab.providers.aws.protocol import provider_pb2 as pb
from lab.providers.aws.protocol import provider_pb2_grpc
from lab.providers.aws.state import FAILED
from lab.providers.aws.wire import UNKNOWN, Secret, dump, load

URN = "urn:pulumi:test::project::{}::name"
VPC, SECRET, GROUP = (
    "aws:ec2/vpc:Vpc",
    "aws:secretsmanager/secretVersion:SecretVersion",
    "aws:eks/nodeGroup:NodeGroup",
)


@pytest.fixture
def listener() -> Iterator[str]:
    """An endpoint at which somebody listens, though nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def stub() -> Iterator[Any]:
    server, port = serve(None)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)
    server.stop(None)


@pytest.fixture
def provider(stub: Any, listener: str) -> Any:
    answer = stub.Configure(pb.ConfigureRequest(args=dump(configuration(listener))))
    assert answer.acceptSecrets and answer.supportsPreview
    assert not answer.acceptResources and not answer.acceptOutputs
    return stub


def configuration(endpoint: str) -> dict[str, Any]:
    return {
        "region": "us-east-1",
        "accessKey": "a",
        "secretKey": "b",
        "endpoints": json.dumps([{"ec2": endpoint, "eks": endpoint}]),
        "defaultTags": json.dumps({"tags": {"project": "x"}}),
    }


def check(stub: Any, token: str, news: dict[str, Any], olds: dict[str, Any] | None = None) -> Any:
    request = pb.CheckRequest(
        urn=URN.format(token), news=dump(news), olds=dump(olds or {}), randomSeed=b"0" * 32
    )
    return stub.Check(request)


def diff(stub: Any, token: str, old: dict[str, Any], new: dict[str, Any], state: dict[str, Any]) -> Any:
    return stub.Diff(
        pb.DiffRequest(id="x", urn=URN.format(token), olds=dump(state), old_inputs=dump(old), news=dump(new))
    )


def refusal(error: pytest.ExceptionInfo[grpc.RpcError]) -> str:
    return str(error.value.details())


def test_configuration_elsewhere_fails_in_check_and_in_configure(stub: Any) -> None:
    elsewhere = dump(configuration("https://ec2.us-east-1.amazonaws.com"))
    failures = stub.CheckConfig(pb.CheckRequest(news=elsewhere)).failures
    assert [failure.property for failure in failures] == ["endpoints"]
    with pytest.raises(grpc.RpcError) as error:
        stub.Configure(pb.ConfigureRequest(args=elsewhere))
    assert "isn't on this machine" in refusal(error)


def test_a_lab_that_is_down_is_named_at_once(stub: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(grpc.RpcError) as error:
        stub.Configure(pb.ConfigureRequest(args=dump(configuration(free))))
    assert f"nothing answers at {free}" in refusal(error)


def test_nothing_works_without_a_configuration(stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        stub.Create(pb.CreateRequest(urn=URN.format(VPC), properties=dump({"cidrBlock": "10.0.0.0/16"})))
    assert "isn't configured" in refusal(error)


def test_a_type_that_it_does_not_have(provider: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        check(provider, "aws:rds/instance:Instance", {})
    assert "no resource type aws:rds/instance:Instance" in refusal(error)


def test_check_of_a_child_of_a_component(provider: Any) -> None:
    request = pb.CheckRequest(
        urn=f"urn:pulumi:test::project::my:index:Net${VPC}::vpc", news=dump({"cidrBlock": "10.0.0.0/16"})
    )
    assert load(provider.Check(request).inputs)["tagsAll"] == {"project": "x"}


def test_check_names_failures(provider: Any) -> None:
    found = check(provider, VPC, {"cidr": "10.0.0.0/16"})
    assert [(failure.property, "cidrBlock" in failure.reason) for failure in found.failures] == [
        ("cidr", True)
    ]


def test_secrets_pass_through_check_and_are_never_quoted(provider: Any) -> None:
    found = check(provider, SECRET, {"secretId": "s", "secretString": Secret("hush")})
    assert load(found.inputs)["secretString"] == Secret("hush")
    found = check(provider, SECRET, {"secretId": "s", "secretString": Secret(["hush"])})
    assert [failure.property for failure in found.failures] == ["secretString"]
    assert "hush" not in found.failures[0].reason


def test_secret_tags_make_secret_tags_all(provider: Any) -> None:
    found = load(check(provider, VPC, {"tags": Secret({"a": "b"})}).inputs)
    assert found["tagsAll"] == Secret({"project": "x", "a": "b"})


def test_preview_of_a_create_knows_what_can_be_known(provider: Any) -> None:
    inputs = load(check(provider, VPC, {"cidrBlock": "10.0.0.0/16", "tags": {"a": UNKNOWN}}).inputs)
    answer = provider.Create(pb.CreateRequest(urn=URN.format(VPC), properties=dump(inputs), preview=True))
    planned = load(answer.properties)
    assert answer.id == ""
    assert planned["cidrBlock"] == "10.0.0.0/16"
    assert planned["arn"] is UNKNOWN
    assert "__defaults" not in planned


def test_preview_of_an_update_keeps_outputs_but_those_that_change(provider: Any) -> None:
    token = "aws:ec2/launchTemplate:LaunchTemplate"
    answer = provider.Update(
        pb.UpdateRequest(
            id="lt-1",
            urn=URN.format(token),
            olds=dump({"arn": "arn:…", "latestVersion": 3, "name": "x"}),
            old_inputs=dump({"name": "x"}),
            news=dump({"name": "x", "instanceType": "p5.48xlarge"}),
            preview=True,
        )
    )
    planned = load(answer.properties)
    assert (planned["arn"], planned["latestVersion"]) == ("arn:…", UNKNOWN)


def test_diff_says_what_a_change_takes(provider: Any) -> None:
    old = {"cidrBlock": "10.0.0.0/16", "tags": {"a": "1"}, "tagsAll": {"a": "1"}}
    new = {"cidrBlock": "10.1.0.0/16", "tags": {"a": "2"}, "tagsAll": {"a": "2"}}
    answer = diff(provider, VPC, old, new, {})
    assert answer.changes == pb.DiffResponse.DIFF_SOME
    assert list(answer.replaces) == ["cidrBlock"]
    assert answer.hasDetailedDiff
    kinds = {path: pb.PropertyDiff.Kind.Name(each.kind) for path, each in answer.detailedDiff.items()}
    assert kinds == {"cidrBlock": "UPDATE_REPLACE", "tags.a": "UPDATE", "tagsAll.a": "UPDATE"}
    assert diff(provider, VPC, old, dict(old), {}).changes == pb.DiffResponse.DIFF_NONE


def test_what_failed_when_it_was_made_is_made_anew(provider: Any) -> None:
    inputs = {"clusterName": "c", "nodeGroupName": "p5"}
    answer = diff(provider, GROUP, inputs, dict(inputs), {"status": "CREATE_FAILED", FAILED: True})
    assert list(answer.replaces) == [FAILED] and answer.deleteBeforeReplace


def test_another_region_replaces_the_provider(stub: Any) -> None:
    def changed(**news: str) -> Any:
        return stub.DiffConfig(
            pb.DiffRequest(
                old_inputs=dump({"region": "us-east-1"}), news=dump({"region": "us-east-1", **news})
            )
        )

    assert list(changed(region="us-west-2").replaces) == ["region"]
    assert list(changed(accessKey="x").replaces) == []


def test_an_unknown_function(provider: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        provider.Invoke(pb.InvokeRequest(tok="aws:ec2/getAmi:getAmi", args=dump({})))
    assert "has no function aws:ec2/getAmi:getAmi" in refusal(error)


def test_policy_documents(provider: Any) -> None:
    statement = {
        "actions": ["s3:Get*", "s3:List*"],
        "resources": ["arn:aws:s3:::a"],
        "principals": [{"type": "AWS", "identifiers": ["arn:aws:iam::1:root"]}],
        "conditions": [{"test": "Bool", "variable": "aws:SecureTransport", "values": ["true"]}],
    }
    answer = provider.Invoke(
        pb.InvokeRequest(
            tok="aws:iam/getPolicyDocument:getPolicyDocument", args=dump({"statements": [statement]})
        )
    )
    assert json.loads(load(getattr(answer, "return"))["json"]) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:Get*", "s3:List*"],
                "Resource": "arn:aws:s3:::a",
                "Principal": {"AWS": "arn:aws:iam::1:root"},
                "Condition": {"Bool": {"aws:SecureTransport": "true"}},
            }
        ],
    }
