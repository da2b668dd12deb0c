"""Tokens through the webhook, and access policies as RBAC, on a real API server."""

from __future__ import annotations

import base64

import pytest

from lab.nodes.api import AccessEntry, access_group
from tests.lab.nodes.support import World
from tests.lab.nodes.webhook import Webhook
from tests.waiting import eventually

pytestmark = pytest.mark.lab
ADMIN, TRAINER = (f"arn:aws:iam::123456789012:role/{name}" for name in ("admin", "trainer"))


@pytest.fixture
def entries(world: World, webhook: Webhook) -> None:
    webhook.users["token-of-trainer"] = ("trainer:session-1", [access_group(TRAINER)])
    world.runtime.apply_access(
        "main",
        [
            AccessEntry(ADMIN, "admin", (), [("AmazonEKSClusterAdminPolicy", ())]),
            AccessEntry(TRAINER, "trainer:{{SessionName}}", (), [("AmazonEKSEditPolicy", ("training",))]),
        ],
    )


def can(world: World, who: str, *question: str, groups: tuple[str, ...] = ()) -> bool:
    flags = [f"--as={who}", *(f"--as-group={group}" for group in groups)]
    return world.kubectl("auth", "can-i", *question, *flags, check=False).strip().startswith("yes")


def test_policies_become_permissions(world: World, entries: None) -> None:
    assert can(world, "admin", "*", "*")
    world.kubectl("create", "namespace", "training")  # after the entry that names it
    eventually(
        lambda: can(world, "trainer:x", "create", "pods", "-n", "training", groups=(access_group(TRAINER),))
    )
    assert not can(world, "trainer:x", "create", "pods", "-n", "default", groups=(access_group(TRAINER),))

    world.runtime.apply_access("main", [AccessEntry(ADMIN, "admin", (), [("AmazonEKSViewPolicy", ())])])
    assert can(world, "admin", "list", "pods")
    assert not can(world, "admin", "delete", "pods")
    assert not can(world, "trainer:x", "get", "pods", "-n", "training", groups=(access_group(TRAINER),))


def test_tokens_go_to_the_webhook(world: World, entries: None, webhook: Webhook) -> None:
    def whoami(token: str) -> str:
        # An empty kubeconfig: with the admin's the certificate would win over the token.
        authority = world.kubeconfig.parent / "pki/ca.crt"
        server = world.client.url
        flags = [
            "--kubeconfig=/dev/null",
            f"--server={server}",
            f"--certificate-authority={authority}",
            f"--token={token}",
        ]
        return world.kubectl(*flags, "auth", "whoami", check=False)

    assert "trainer:session-1" in whoami("token-of-trainer")
    assert access_group(TRAINER) in whoami("token-of-trainer")
    assert "Unauthorized" in whoami("token-of-nobody") or "must be logged in" in whoami("token-of-nobody")
    assert webhook.callers[-1].startswith("/_lab/authenticate/main?"), (
        "the webhook must know which cluster a token is for"
    )


def test_the_endpoint_carries_its_authority(world: World) -> None:
    from lab.nodes.api import ClusterSpec

    endpoint = world.runtime.create_cluster(ClusterSpec("main", "1.34", "arn"))  # it exists: nothing happens
    assert b"BEGIN CERTIFICATE" in base64.b64decode(endpoint.certificate_authority)
    assert endpoint.url == world.client.url
