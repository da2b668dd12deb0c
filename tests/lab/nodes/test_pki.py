"""Certificates: who signs them, whom they name, who can read their keys."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from lab.nodes.pki import Authority, Pair, signing_key


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_certificate_names_its_user_and_addresses(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = Pair(tmp_path / "node.crt", tmp_path / "node.key")
    authority.issue(pair, "system:node:a", ["system:nodes"], ["10.210.0.11", "node.internal"])
    certificate = read(pair.certificate)
    certificate.verify_directly_issued_by(read(authority.certificate))
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:a"
    assert certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.210.0.11")]
    assert names.get_values_for_type(x509.DNSName) == ["node.internal"]


def test_an_authority_is_read_again(tmp_path: Path) -> None:
    first = Authority(tmp_path, "ca").certificate.read_bytes()
    assert Authority(tmp_path, "ca").certificate.read_bytes() == first


def test_authorities_are_apart(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").issue(Pair(tmp_path / "a.crt", tmp_path / "a.key"), "a")
    other = Authority(tmp_path, "front-proxy-ca")
    with pytest.raises((InvalidSignature, ValueError)):
        read(pair.certificate).verify_directly_issued_by(read(other.certificate))


def test_keys_are_for_the_owner_only(tmp_path: Path) -> None:
    Authority(tmp_path, "ca").issue(Pair(tmp_path / "a.crt", tmp_path / "a.key"), "a")
    signing_key(tmp_path, "service-accounts")
    keys = list(tmp_path.glob("*.key"))
    assert len(keys) == 3
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
