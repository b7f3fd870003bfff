# SPDX-License-Identifier: Apache-2.0
"""Certificates of one control plane: authority, serving and client certificates, the service-account key.

Everything is made anew for each control plane, in memory, and valid for a day: nothing is worth keeping or
stealing. Keys are elliptic (P-256), because making RSA keys would take longer than starting etcd.
Certificates carry the key identifiers that Python 3.13 and newer insist on.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "KeyPair", "make_signing_key", "write_private"]

_LIFETIME = dt.timedelta(days=1)
# A clock that was set back a little must not make a new certificate "not yet valid".
_BACKDATE = dt.timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """A certificate (or a public key) and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write ``name``.crt and ``name``.key, readable by the owner alone, and return their paths."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        write_private(certificate, self.certificate)
        write_private(key, self.key)
        return certificate, key


class Authority:
    """A certificate authority that lives as long as this object."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = _key_usage(signs_certificates=True)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def key_pair(self) -> KeyPair:
        """The authority's own certificate and key; the controller manager signs with them."""
        return _key_pair(self._certificate, self._key)

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a certificate that authenticates ``user`` in ``groups`` to the API server."""
        return self._issue(user, groups, (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def issue_server(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """Issue a certificate for a server that is reached by ``hosts``: DNS names or IP addresses.

        It also serves as a client certificate, because an etcd member is a client of its own listener.
        """
        return self._issue(name, (), hosts, ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, name: str, organizations: Sequence[str], hosts: Sequence[str], *purposes: x509.ObjectIdentifier
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return _key_pair(builder.sign(self._key, hashes.SHA256()), key)


def make_signing_key() -> KeyPair:
    """Make the key that signs service-account tokens; ``certificate`` is its public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(public, _private_pem(key))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody but the owner could read at any moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # Kubernetes reads this form ("EC PRIVATE KEY") everywhere, and PKCS #8 not everywhere.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
