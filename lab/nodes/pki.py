"""Certificate authorities and the certificates that a cluster's programs show each other.

trustme makes the certificates. A Kubernetes user is a certificate's common name, and its group the organisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

NO_GROUP = "shardyard"
"""Organisation of users without a group. trustme would write its own name; nothing is bound to either."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate (or a bare public key) and its private key, as PEM files."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """A new certificate authority, with its certificate and key in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        self._authority = trustme.CA(organization_name=NO_GROUP, organization_unit_name=name)
        _write(self.pair, self._authority.cert_pem.bytes(), self._authority.private_key_pem.bytes())

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def issue(
        self, pair: KeyPair, user: str, group: str = NO_GROUP, addresses: Sequence[str] = ()
    ) -> KeyPair:
        """Write a certificate for `user`; `addresses` are the host names and IP addresses of a server.

        Every certificate is valid for servers and clients: API servers, kubelets and etcd are both.
        """
        # Go rejects the empty list of alternative names that trustme would write for a client.
        made = self._authority.issue_cert(
            *(addresses or ("client.invalid",)), common_name=user, organization_name=group
        )
        _write(pair, made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes())
        return pair


def signing_key(folder: Path, name: str) -> KeyPair:
    """A new key pair without a certificate, which signs and verifies service account tokens."""
    pair = KeyPair(folder / f"{name}.pub", folder / f"{name}.key")
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(pair, public, private)
    return pair


def _write(pair: KeyPair, certificate: bytes, key: bytes) -> None:
    pair.certificate.write_bytes(certificate)
    pair.key.touch(mode=0o600)
    pair.key.write_bytes(key)
