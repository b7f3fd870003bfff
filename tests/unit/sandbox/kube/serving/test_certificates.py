# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from karpenter.sandbox.kube.serving.certificates import CERTIFICATE, make_key_pair, serving_context

_NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_the_certificate_vouches_for_loopback_and_for_itself() -> None:
    made = make_key_pair(_NOW)

    certificate = x509.load_pem_x509_certificate(made.certificate)
    certificate.verify_directly_issued_by(certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_cert_sign, usage.key_encipherment) == (True, True, False)
    assert certificate.not_valid_before_utc < _NOW - timedelta(hours=1)
    assert certificate.not_valid_after_utc > _NOW + timedelta(days=1000)


def test_the_key_is_that_of_the_certificate() -> None:
    made = make_key_pair(_NOW)

    key = serialization.load_pem_private_key(made.key, None)
    certificate = x509.load_pem_x509_certificate(made.certificate)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == certificate.public_key()


def test_every_key_is_another() -> None:
    assert make_key_pair(_NOW).key != make_key_pair(_NOW).key


def test_a_client_that_has_the_certificate_trusts_the_server_and_one_without_does_not(tmp_path: Path) -> None:
    context = serving_context(tmp_path / "tls")
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / CERTIFICATE))

    assert _shake_hands(context, trusting) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(context, ssl.create_default_context())


def test_a_restart_takes_the_certificate_that_is_there(tmp_path: Path) -> None:
    serving_context(tmp_path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    serving_context(tmp_path)

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in tmp_path.iterdir())


def _shake_hands(serving: ssl.SSLContext, trusting: ssl.SSLContext) -> str | None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            try:
                serving.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

        serving_thread = threading.Thread(target=serve)
        serving_thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname(), timeout=30) as plain,
                trusting.wrap_socket(plain, server_hostname="127.0.0.1") as connected,
            ):
                return connected.version()
        finally:
            serving_thread.join(30)
