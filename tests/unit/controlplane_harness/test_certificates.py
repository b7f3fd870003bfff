# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from tests.e2e.controlplane.certificates import Authority, make_signing_key
from tests.e2e.controlplane.kubeconfig import make_kubeconfig


def test_a_client_certificate_names_user_and_groups_and_is_signed_by_the_authority() -> None:
    authority = Authority("ca")

    client = x509.load_pem_x509_certificate(
        authority.issue_client("ada", ["system:masters", "dev"]).certificate
    )

    ca = x509.load_pem_x509_certificate(authority.key_pair.certificate)
    client.verify_directly_issued_by(ca)
    assert [each.value for each in client.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["ada"]
    groups = client.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert sorted(str(each.value) for each in groups) == ["dev", "system:masters"]


def test_a_server_certificate_is_for_its_addresses_and_names_alone() -> None:
    server = x509.load_pem_x509_certificate(
        Authority("ca").issue_server("api", ["127.0.0.1", "localhost"]).certificate
    )

    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]


def test_certificates_are_valid_now_and_not_for_long() -> None:
    certificate = x509.load_pem_x509_certificate(Authority("ca").issue_client("ada").certificate)

    now = dt.datetime.now(dt.UTC)

    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc
    assert certificate.not_valid_after_utc - now < dt.timedelta(days=2)


def test_keys_are_written_for_the_owner_alone(tmp_path: Path) -> None:
    files = Authority("ca").key_pair.write(tmp_path, "ca")

    assert [each.name for each in files] == ["ca.crt", "ca.key"]
    assert [each.stat().st_mode & 0o777 for each in files] == [0o600, 0o600]


def test_the_public_signing_key_belongs_to_the_private_one() -> None:
    pair = make_signing_key()

    private = serialization.load_pem_private_key(pair.key, password=None)

    assert pair.certificate == private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_a_kubeconfig_embeds_everything_and_offers_certificate_and_token() -> None:
    authority = Authority("ca")
    client = authority.issue_client("ada")

    config = yaml.safe_load(
        make_kubeconfig("plane", "https://127.0.0.1:1", authority.key_pair.certificate, client, token="t")
    )

    [cluster] = config["clusters"]
    users = {each["name"]: each["user"] for each in config["users"]}
    contexts = {each["name"]: each["context"] for each in config["contexts"]}
    assert cluster["cluster"]["server"] == "https://127.0.0.1:1"
    assert (
        base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == authority.key_pair.certificate
    )
    assert base64.b64decode(users["plane"]["client-key-data"]) == client.key
    assert users["plane-token"] == {"token": "t"}
    assert contexts["plane-token"] == {"cluster": "plane", "user": "plane-token"}
    assert config["current-context"] == "plane"


def test_a_kubeconfig_without_a_token_has_one_context() -> None:
    authority = Authority("ca")

    config = yaml.safe_load(
        make_kubeconfig("plane", "https://h", authority.key_pair.certificate, authority.issue_client("ada"))
    )

    assert [each["name"] for each in config["contexts"]] == ["plane"]
