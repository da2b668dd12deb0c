"""The clusters' TokenReview webhook: tokens of `aws eks get-token`, and the users they stand for.

A token is the URL of an STS GetCallerIdentity request, signed with SigV4 for the header x-k8s-aws-id, which
holds the cluster's name. EKS sends that request to STS; the emulator knows the secret keys itself, so it
computes the signature again. (aws-iam-authenticator, "What is the token"; AWS "Signature Version 4".)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from lab.aws.eks.state import Cluster, Clusters, Entry
from lab.aws.principals import Principal, find_principal
from lab.aws.world import World
from lab.nodes.api import access_group
from lab.settings import ACCOUNT, LOOPBACK

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
LIFETIME = timedelta(minutes=15)
"""A token is good for this long, whatever its URL says."""
SKEW = timedelta(minutes=5)
STS_HOST = re.compile(r"^sts(\.[a-z0-9-]+)?\.amazonaws\.com$")


class Rejected(Exception):
    """Why a token isn't accepted."""


@dataclass(frozen=True)
class Token:
    """What a token says, unverified."""

    host: str
    path: str
    query: Mapping[str, str]
    access_key: str
    scope: str
    """date/region/service/aws4_request, as it was signed."""
    signed_at: datetime
    signed_headers: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Token:
        """Raises Rejected for anything but a GetCallerIdentity URL of the right form."""
        if not text.startswith(PREFIX):
            raise Rejected("not an EKS token")
        try:
            url = base64.urlsafe_b64decode(text.removeprefix(PREFIX) + "==").decode()
            parts = urlsplit(url)
            query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
            access_key, _, scope = query["X-Amz-Credential"].partition("/")
            signed_at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            headers = tuple(query["X-Amz-SignedHeaders"].split(";"))
        except (KeyError, ValueError) as error:
            raise Rejected(f"malformed token ({type(error).__name__})") from None
        if query.get("Action") != "GetCallerIdentity" or query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
            raise Rejected("not a request for GetCallerIdentity")
        if CLUSTER_HEADER not in headers:
            raise Rejected(f"{CLUSTER_HEADER} is not among the signed headers")
        return cls(parts.netloc, parts.path or "/", query, access_key, scope, signed_at, headers)

    def check(self, emulator: str, now: datetime) -> None:
        """It is for STS or this emulator (host:port), and in time. Raises Rejected."""
        if not STS_HOST.match(self.host) and self.host != emulator:
            raise Rejected(f"unexpected host {self.host}")
        if not self.signed_at - SKEW <= now <= self.signed_at + LIFETIME:
            raise Rejected("the token has expired")

    def signature(self, secret_key: str, cluster: str) -> str:
        """The signature that this request has if it was signed with that key for that cluster."""
        values = {"host": self.host, CLUSTER_HEADER: cluster}
        if set(self.signed_headers) - set(values):
            raise Rejected(f"unexpected signed headers {self.signed_headers}")
        pairs = sorted(
            (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
            for name, value in self.query.items()
            if name != "X-Amz-Signature"
        )
        request = "\n".join(
            (
                "GET",
                self.path,
                "&".join(f"{name}={value}" for name, value in pairs),
                *(f"{name}:{values[name]}" for name in self.signed_headers),
                "",
                ";".join(self.signed_headers),
                hashlib.sha256(b"").hexdigest(),
            )
        )
        to_sign = "\n".join(
            (
                "AWS4-HMAC-SHA256",
                self.query["X-Amz-Date"],
                self.scope,
                hashlib.sha256(request.encode()).hexdigest(),
            )
        )
        key = b"AWS4" + secret_key.encode()
        for part in self.scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, to_sign.encode(), "sha256").hex()


def verify(token: Token, cluster: str, principal: Principal, now: datetime) -> None:
    """The key's holder signed it for this cluster. Raises Rejected."""
    if not hmac.compare_digest(
        token.signature(principal.secret_key, cluster), token.query.get("X-Amz-Signature", "")
    ):
        raise Rejected(f"the signature is not that of the key for the cluster {cluster}")
    if token.query.get("X-Amz-Security-Token", "") != principal.session_token:
        raise Rejected("the security token is not that of the session")
    if principal.expires and now.replace(tzinfo=None) > principal.expires:
        raise Rejected("the session has expired")


def user_of(entry: Entry, principal: Principal) -> dict[str, Any]:
    """The Kubernetes user that an access entry makes of a principal."""
    # An at sign in a session name becomes a dash, as in EKS.
    username = entry.username.replace("{{SessionName}}", principal.session_name.replace("@", "-"))
    username = username.replace("{{SessionNameRaw}}", principal.session_name)
    return {
        "username": username,
        "uid": f"aws-iam-authenticator:{ACCOUNT}:{principal.user_id.partition(':')[0]}",
        "groups": [*entry.groups, access_group(entry.principal_arn)],
        "extra": {
            "arn": [principal.caller_arn],
            "canonicalArn": [principal.arn],
            "principalId": [principal.user_id.partition(":")[0]],
            "sessionName": [principal.session_name],
        },
    }


def authenticate(world: World, text: str, cluster_name: str) -> dict[str, Any]:
    """The Kubernetes user behind a token of a cluster. Raises Rejected."""
    token, now = Token.parse(text), datetime.now(UTC)
    token.check(f"{LOOPBACK}:{world.lab.aws_port}", now)
    with world.lock:
        cluster = _cluster(world, cluster_name)
        principal = find_principal(ACCOUNT, token.access_key)
        if principal is None:
            raise Rejected("unknown access key")
        verify(token, cluster.name, principal, now)
        entry = cluster.entries.get(principal.arn)
        if entry is None:
            raise Rejected(f"{principal.arn} has no access entry in the cluster {cluster.name}")
        return user_of(entry, principal)


def _cluster(world: World, name: str) -> Cluster:
    for state in world.states(Clusters).values():
        if name in state.clusters:
            return state.clusters[name]
    raise Rejected(f"no cluster {name!r}")


def review(world: World, request: Mapping[str, Any], cluster_name: str) -> dict[str, Any]:
    """Answer a TokenReview of authentication.k8s.io/v1."""
    text = request.get("spec", {}).get("token", "")
    try:
        status: dict[str, Any] = {"authenticated": True, "user": authenticate(world, text, cluster_name)}
    except Rejected as error:
        status = {"authenticated": False, "error": str(error)}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
