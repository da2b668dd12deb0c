"""Certificate authorities and the certificates that a cluster's parts show each other."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)
"""A lab lives for hours; its keys go with it."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder: made at first use, read after that."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        if not self.pair.key.exists():
            self._make(name)
        self._key = _read_key(self.pair.key)
        self._certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def issue(
        self, pair: Pair, name: str, organizations: Sequence[str] = (), addresses: Sequence[str] = ()
    ) -> Pair:
        """Write a certificate for `name`; `addresses` (host names or IPs) are what a server is reached at.

        Every certificate is good for both ends of a connection: API servers, kubelets and etcd are clients too.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = (
            _builder(_name(name, organizations), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(usages, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if addresses:
            names = x509.SubjectAlternativeName([_general_name(address) for address in addresses])
            builder = builder.add_extension(names, critical=False)
        _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        return pair

    def _make(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(f"shardyard-{name}", ())
        builder = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        _write(self.pair, builder.sign(key, hashes.SHA256()), key)


def signing_key(folder: Path, name: str) -> Pair:
    """A bare key pair, for service account tokens; `certificate` is the public key."""
    pair = Pair(folder / f"{name}.pub", folder / f"{name}.key")
    if not pair.key.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        pair.certificate.write_bytes(public)
        _write_private(pair.key, key)
    return pair


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks may differ between virtual machines
        .not_valid_after(now + LIFETIME)
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name(names)


def _key_usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(pair.key, key)


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key
