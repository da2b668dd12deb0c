"""Certificates: who signs them, whom they name, who can read their keys."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import stat
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from lab.nodes.pki import CertificateAuthority, KeyPair, signing_key


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def pair(folder: Path, name: str) -> KeyPair:
    return KeyPair(folder / f"{name}.crt", folder / f"{name}.key")


def test_a_certificate_names_its_user_group_and_addresses(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path, "ca")
    node = authority.issue(
        pair(tmp_path, "node"), "system:node:a", "system:nodes", ["10.210.0.11", "node.internal"]
    )
    certificate = read(node.certificate)
    certificate.verify_directly_issued_by(read(authority.certificate))
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:a"
    assert certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.210.0.11")]
    assert names.get_values_for_type(x509.DNSName) == ["node.internal"]


@pytest.mark.parametrize("addresses", [(), ("node.internal",)])
def test_alternative_names_are_never_empty(tmp_path: Path, addresses: tuple[str, ...]) -> None:
    """Go's crypto/x509 rejects a critical extension without any name in it."""
    client = CertificateAuthority(tmp_path, "ca").issue(
        pair(tmp_path, "client"), "client", addresses=addresses
    )
    names = read(client.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName)


def test_both_ends_accept_each_other(tmp_path: Path) -> None:
    """A TLS connection with a client certificate, as between the API server and etcd."""
    authority = CertificateAuthority(tmp_path, "ca")
    server = authority.issue(pair(tmp_path, "server"), "etcd", addresses=["127.0.0.1"])
    client = authority.issue(pair(tmp_path, "client"), "kubernetes-admin", "system:masters")
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    accepting.verify_mode = ssl.CERT_REQUIRED
    accepting.load_cert_chain(server.certificate, server.key)
    connecting = ssl.create_default_context(cafile=str(authority.certificate))
    connecting.load_cert_chain(client.certificate, client.key)
    subjects: list[object] = []

    def accept(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with accepting.wrap_socket(connection, server_side=True) as secured:
            subjects.append((secured.getpeercert() or {})["subject"])
            secured.sendall(b"hello")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=accept, args=(listener,))
        thread.start()
        with socket.create_connection(listener.getsockname()) as plain:
            with connecting.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
                assert secured.recv(5) == b"hello"
        thread.join()
    assert "kubernetes-admin" in str(subjects) and "system:masters" in str(subjects)


def test_authorities_are_apart(tmp_path: Path) -> None:
    client = CertificateAuthority(tmp_path, "ca").issue(pair(tmp_path, "a"), "a")
    other = CertificateAuthority(tmp_path, "front-proxy-ca")
    with pytest.raises((InvalidSignature, ValueError)):
        read(client.certificate).verify_directly_issued_by(read(other.certificate))


def test_a_signing_key_is_a_pair(tmp_path: Path) -> None:
    made = signing_key(tmp_path, "service-accounts")
    private = serialization.load_pem_private_key(made.key.read_bytes(), password=None)
    assert private.public_key() == serialization.load_pem_public_key(made.certificate.read_bytes())


def test_keys_are_for_the_owner_only(tmp_path: Path) -> None:
    CertificateAuthority(tmp_path, "ca").issue(pair(tmp_path, "a"), "a")
    signing_key(tmp_path, "service-accounts")
    keys = list(tmp_path.glob("*.key"))
    assert len(keys) == 3
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
