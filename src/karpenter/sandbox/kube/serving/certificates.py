# SPDX-License-Identifier: Apache-2.0
"""A serving certificate for an API on loopback: self-signed, ECDSA on P-256, made with the standard library alone.

kubectl sends a token over TLS only. The certificate is its own authority, valid for this machine's loopback names, and
stands in the kubeconfig; the key stays in a file that only its owner can read. A restart takes the files that are
there, so that clients which are connected go on trusting the server. The arithmetic is not hardened against timing: a
program that could measure it on loopback can read the file as well.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

__all__ = ["CERTIFICATE", "KeyPair", "make_key_pair", "serving_context"]

CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_NAME: Final = "karpenter-sandbox"
_LIFETIME: Final = timedelta(days=5 * 365)
# A clock that was set back must not make a new certificate "not yet valid".
_BACKDATE: Final = timedelta(days=1)

# The curve P-256 (FIPS 186-4): y^2 = x^3 - 3x + b modulo p, with the base point G of order n.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_SEQUENCE, _SET, _INTEGER, _BITS, _OCTETS, _OID, _TEXT, _TIME = 0x30, 0x31, 0x02, 0x03, 0x04, 0x06, 0x0C, 0x17
_TRUE: Final = b"\x01\x01\xff"

Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


def serving_context(directory: Path) -> ssl.SSLContext:
    """Return what a server needs for TLS, with the certificate of a directory, made if there is none.

    Raises:
        OSError: the files cannot be written or read.
    """
    certificate, key = directory / CERTIFICATE, directory / _KEY
    if not (certificate.exists() and key.exists()):
        made = make_key_pair(datetime.now(UTC))
        directory.mkdir(parents=True, exist_ok=True)
        _write(key, made.key)
        _write(certificate, made.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def make_key_pair(
    now: datetime, addresses: Iterable[str] = ("127.0.0.1", "::1"), names: Iterable[str] = ("localhost",)
) -> KeyPair:
    """Return a new key with a certificate that vouches for itself and for these addresses and names."""
    secret = secrets.randbelow(_N - 1) + 1
    public = _encoded(_times(secret, _G))
    body = _body(public, now, addresses, names)
    certificate = _der(
        _SEQUENCE, body, _der(_SEQUENCE, _oid("1.2.840.10045.4.3.2")), _bits(_signed(body, secret))
    )
    key = _der(
        _SEQUENCE,
        _integer(1),
        _der(_OCTETS, secret.to_bytes(32, "big")),
        _der(0xA0, _oid("1.2.840.10045.3.1.7")),
        _der(0xA1, _bits(public)),
    )
    return KeyPair(_pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key))


def _body(public: bytes, now: datetime, addresses: Iterable[str], names: Iterable[str]) -> bytes:
    name = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _oid("2.5.4.3"), _der(_TEXT, _NAME.encode("ascii")))))
    algorithm = _der(_SEQUENCE, _oid("1.2.840.10045.2.1"), _oid("1.2.840.10045.3.1.7"))
    identifier = hashlib.sha1(public, usedforsecurity=False).digest()
    known_as = [_der(0x87, ipaddress.ip_address(each).packed) for each in addresses]
    known_as += [_der(0x82, each.encode("ascii")) for each in names]
    extensions = (
        _extension("2.5.29.19", _der(_SEQUENCE, _TRUE), critical=True),
        # digitalSignature and keyCertSign: it signs handshakes, and itself.
        _extension("2.5.29.15", _der(_BITS, b"\x02\x84"), critical=True),
        _extension("2.5.29.37", _der(_SEQUENCE, _oid("1.3.6.1.5.5.7.3.1"))),
        _extension("2.5.29.17", _der(_SEQUENCE, *known_as)),
        _extension("2.5.29.14", _der(_OCTETS, identifier)),
        _extension("2.5.29.35", _der(_SEQUENCE, _der(0x80, identifier))),
    )
    return _der(
        _SEQUENCE,
        _der(0xA0, _integer(2)),
        _integer(secrets.randbits(126) + 1),
        _der(_SEQUENCE, _oid("1.2.840.10045.4.3.2")),
        name,
        _der(_SEQUENCE, _time(now - _BACKDATE), _time(now + _LIFETIME)),
        name,
        _der(_SEQUENCE, algorithm, _bits(public)),
        _der(0xA3, _der(_SEQUENCE, *extensions)),
    )


def _signed(message: bytes, secret: int) -> bytes:
    """Return the ECDSA signature of a message with SHA-256."""
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    once = secrets.randbelow(_N - 1) + 1
    first = _times(once, _G)[0] % _N
    second = pow(once, -1, _N) * (digest + first * secret) % _N
    return _der(_SEQUENCE, _integer(first), _integer(second))


def _times(factor: int, point: Point) -> Point:
    """Return a multiple of a point; factors are from 1 to n - 1, so that no step meets the point at infinity."""
    result: Point | None = None
    for bit in bin(factor)[:1:-1]:
        if bit == "1":
            result = point if result is None else _sum(result, point)
        point = _sum(point, point)
    assert result is not None  # noqa: S101 - factors are not zero
    return result


def _sum(one: Point, other: Point) -> Point:
    if one == other:
        slope = (3 * one[0] * one[0] - 3) * pow(2 * one[1], -1, _P) % _P
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P) % _P
    x = (slope * slope - one[0] - other[0]) % _P
    return x, (slope * (one[0] - x) - one[1]) % _P


def _encoded(point: Point) -> bytes:
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _integer(value: int) -> bytes:
    # One bit more than the number has, so that it does not look negative.
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _der(_BITS, b"\x00", content)


def _oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    return _der(_OID, bytes((first * 40 + second,)), *map(_base_128, rest))


def _base_128(value: int) -> bytes:
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F | 0x80)
    return bytes(reversed(digits))


def _extension(identifier: str, value: bytes, *, critical: bool = False) -> bytes:
    return _der(_SEQUENCE, _oid(identifier), _TRUE if critical else b"", _der(_OCTETS, value))


def _time(moment: datetime) -> bytes:
    return _der(_TIME, moment.astimezone(UTC).strftime("%y%m%d%H%M%SZ").encode("ascii"))


def _pem(kind: str, content: bytes) -> bytes:
    text = base64.b64encode(content).decode("ascii")
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", "")).encode("ascii")


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, and that is whole as soon as it is there."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    fresh.replace(path)
