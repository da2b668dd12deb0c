"""Who may enter a cluster: access entries, their policies, and the tokens of `aws eks get-token`."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import boto3
import pytest
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from lab.aws.eks import access
from lab.aws.seed import ACCESS_KEY, SECRET_KEY
from lab.nodes.api import access_group
from tests.lab.aws.support import REGION, Emulator, RecordingRuntime, Roles, refused
from tests.waiting import eventually

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKS"
ADMIN = "arn:aws:iam::123456789012:user/lab-admin"


def token(cluster: str, endpoint: str = "https://sts.us-east-1.amazonaws.com", **keys: str) -> str:
    """What `aws eks get-token` prints, made as the AWS CLI makes it."""
    given = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY} | keys
    session = boto3.Session(region_name=REGION, **given)
    signer = RequestSigner(ServiceId("STS"), REGION, "sts", "v4", session.get_credentials(), session.events)
    request = {
        "method": "GET",
        "url": f"{endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(
        request, region_name=REGION, expires_in=60, operation_name="GetCallerIdentity"
    )
    return encoded(url)


def encoded(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def changed(text: str, **values: str) -> str:
    """The token with other query parameters."""
    url = base64.urlsafe_b64decode(text.removeprefix("k8s-aws-v1.") + "==").decode()
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | {name.replace("_", "-"): value for name, value in values.items()}
    return encoded(urlunsplit(parts._replace(query=urlencode(query))))


def review(emulator: Emulator, cluster: str, text: str) -> dict[str, Any]:
    """The status of a TokenReview that the cluster's API server asks for."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
    answer = emulator.console(f"authenticate/{cluster}", body)
    assert (answer["kind"], answer["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
    return dict(answer["status"])


@pytest.fixture
def session(emulator: Emulator, roles: Roles) -> dict[str, str]:
    """Keys of a session of the pods' role."""
    credentials = emulator.client("sts").assume_role(
        RoleArn=roles.role("pods.eks.amazonaws.com"), RoleSessionName="alice@example"
    )["Credentials"]
    return {
        "aws_access_key_id": credentials["AccessKeyId"],
        "aws_secret_access_key": credentials["SecretAccessKey"],
        "aws_session_token": credentials["SessionToken"],
    }


def test_the_creator_administers_the_cluster(eks: Any, cluster: str, runtime: RecordingRuntime) -> None:
    found = eks.list_associated_access_policies(clusterName=cluster, principalArn=ADMIN)[
        "associatedAccessPolicies"
    ]
    assert [one["policyArn"] for one in found] == [f"{POLICY}ClusterAdminPolicy"]
    [entry] = runtime.access[cluster]
    assert (entry.principal_arn, entry.policies) == (ADMIN, (("AmazonEKSClusterAdminPolicy", ()),))


def test_an_entry_takes_effect_before_its_call_returns(
    eks: Any, cluster: str, roles: Roles, runtime: RecordingRuntime
) -> None:
    role = roles.role("pods.eks.amazonaws.com")
    one = {"clusterName": cluster, "principalArn": role}
    eks.create_access_entry(**one, kubernetesGroups=["trainers"])
    scope = {"type": "namespace", "namespaces": ["training"]}
    eks.associate_access_policy(**one, policyArn=f"{POLICY}ViewPolicy", accessScope=scope)
    entry = next(entry for entry in runtime.access[cluster] if entry.principal_arn == role)
    assert entry.groups == ("trainers",)
    assert entry.policies == (("AmazonEKSViewPolicy", ("training",)),)
    eks.disassociate_access_policy(**one, policyArn=f"{POLICY}ViewPolicy")
    eks.update_access_entry(**one, kubernetesGroups=["others"])
    entry = next(entry for entry in runtime.access[cluster] if entry.principal_arn == role)
    assert (entry.groups, entry.policies) == (("others",), ())
    eks.delete_access_entry(**one)
    assert role not in [entry.principal_arn for entry in runtime.access[cluster]]


def test_impossible_entries_are_refused(eks: Any, cluster: str, roles: Roles) -> None:
    role = roles.role("pods.eks.amazonaws.com")

    def code(**given: Any) -> str:
        return refused(eks.create_access_entry, clusterName=cluster, **({"principalArn": role} | given))

    assert code(principalArn=ADMIN) == "ResourceInUseException"
    assert code(kubernetesGroups=["system:masters"]) == "InvalidParameterException"
    assert code(type="EC2_LINUX", username="me") == "InvalidParameterException"
    assert code(principalArn="arn:aws:sts::123456789012:assumed-role/x/y") == "InvalidParameterException"
    policy = {"clusterName": cluster, "principalArn": ADMIN, "accessScope": {"type": "cluster"}}
    assert (
        refused(eks.associate_access_policy, **policy, policyArn=f"{POLICY}NoPolicy")
        == "InvalidParameterException"
    )
    wrong = policy | {"accessScope": {"type": "namespace"}}
    assert (
        refused(eks.associate_access_policy, **wrong, policyArn=f"{POLICY}ViewPolicy")
        == "InvalidParameterException"
    )


def test_a_users_token_is_accepted(emulator: Emulator, cluster: str) -> None:
    for endpoint in ("https://sts.us-east-1.amazonaws.com", emulator.endpoint):
        status = review(emulator, cluster, token(cluster, endpoint))
        assert status["authenticated"], status
        assert status["user"]["username"] == ADMIN
        assert status["user"]["groups"] == [access_group(ADMIN)]
        assert status["user"]["extra"]["canonicalArn"] == [ADMIN]


def test_a_roles_session_is_its_roles_user(
    emulator: Emulator, eks: Any, cluster: str, roles: Roles, session: dict[str, str]
) -> None:
    text, role = token(cluster, **session), roles.role("pods.eks.amazonaws.com")
    refusal = review(emulator, cluster, text)
    assert not refusal["authenticated"]
    assert "no access entry" in refusal["error"]
    eks.create_access_entry(clusterName=cluster, principalArn=role, kubernetesGroups=["trainers"])
    user = review(emulator, cluster, text)["user"]
    assert user["username"] == "arn:aws:sts::123456789012:assumed-role/pods/alice-example"
    assert user["groups"] == ["trainers", access_group(role)]


def test_false_tokens_are_rejected(emulator: Emulator, cluster: str, session: dict[str, str]) -> None:
    def error(text: str, name: str = cluster) -> str:
        status = review(emulator, name, text)
        assert not status["authenticated"]
        return str(status["error"])

    good = token(cluster)
    assert "not an EKS token" in error("abc")
    assert "malformed" in error("k8s-aws-v1.%%%")
    assert "no cluster" in error(good, "nowhere")
    assert "signature" in error(token("another-cluster"))
    assert "signature" in error(token(cluster, aws_secret_access_key="guessed"))
    assert "unknown access key" in error(token(cluster, aws_access_key_id="AKIAIOSFODNN7EXAMPLE"))
    assert "GetCallerIdentity" in error(changed(good, Action="GetSessionToken"))
    assert "signature" in error(changed(good, Version="2012-01-01"))
    assert "host" in error(token(cluster, endpoint="https://evil.example.com"))
    assert "host" in error(token(cluster, endpoint="https://sts.amazonaws.com.evil.example.com"))
    assert "signed headers" in error(changed(good, X_Amz_SignedHeaders="host"))
    old = (datetime.now(UTC) - timedelta(minutes=16)).strftime("%Y%m%dT%H%M%SZ")
    assert "expired" in error(changed(good, X_Amz_Date=old))
    stolen = session | {"aws_session_token": "another"}
    assert "security token" in error(token(cluster, **stolen))


def test_the_cli_makes_such_tokens(emulator: Emulator, cluster: str) -> None:
    """awscli's own class, as `aws eks get-token` uses it."""
    from awscli.customizations.eks.get_token import STSClientFactory, TokenGenerator
    from botocore.session import Session

    made = Session()
    made.set_config_variable("region", REGION)
    made.set_credentials(ACCESS_KEY, SECRET_KEY)
    client = STSClientFactory(made).get_sts_client(region_name=REGION)
    assert review(emulator, cluster, TokenGenerator(client).get_token(cluster))["authenticated"]


def test_a_role_is_assumed_only_by_those_it_trusts(emulator: Emulator) -> None:
    service = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [service]})
    role = emulator.client("iam").create_role(RoleName="machines", AssumeRolePolicyDocument=document)["Role"][
        "Arn"
    ]
    assume = emulator.client("sts").assume_role
    assert refused(assume, RoleArn=role, RoleSessionName="me") == "AccessDenied"
    assert refused(assume, RoleArn=f"{role}-not", RoleSessionName="me") == "AccessDenied"


def test_entries_that_could_not_be_applied_are_applied_later(
    eks: Any, cluster: str, roles: Roles, runtime: RecordingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "RETRY", 0.05)
    role = roles.role("pods.eks.amazonaws.com")
    runtime.failing["apply_access"] = "the API server is busy"
    eks.create_access_entry(clusterName=cluster, principalArn=role)
    assert role not in [one.principal_arn for one in runtime.access[cluster]]
    runtime.failing.clear()
    eventually(lambda: role in [one.principal_arn for one in runtime.access[cluster]])


def test_an_inactive_key_is_nobodys(emulator: Emulator, eks: Any, cluster: str) -> None:
    iam = emulator.client("iam")
    arn = iam.create_user(UserName="leaver")["User"]["Arn"]
    key = iam.create_access_key(UserName="leaver")["AccessKey"]
    eks.create_access_entry(clusterName=cluster, principalArn=arn)
    keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
    assert review(emulator, cluster, token(cluster, **keys))["authenticated"]
    iam.update_access_key(UserName="leaver", AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert "unknown access key" in json.dumps(review(emulator, cluster, token(cluster, **keys)))
