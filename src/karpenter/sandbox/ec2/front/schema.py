# SPDX-License-Identifier: Apache-2.0
"""The descriptions of AWS services that botocore ships: operations, shapes, and their names on the wire.

Read straight from botocore's data files into small structs that hold only what a protocol needs; the documentation
texts, nine tenths of the bytes, are skipped while decoding. A service is read when it is first called, which
for EC2 takes about a tenth of a second. Nothing of botocore's code is imported.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from karpenter.errors import KarpenterError

__all__ = ["SERVICES", "Operation", "Ref", "SchemaMissingError", "Service", "Shape", "service"]

# Every service that is served, by the name that signatures carry.
SERVICES = ("ec2", "sts", "iam", "sqs", "ssm", "eks", "pricing", "events", "arc-zonal-shift", "fis")


class SchemaMissingError(KarpenterError):
    """botocore's description of a service is not where it should be."""


class Ref(msgspec.Struct, rename="camel", frozen=True):
    """A use of a shape: as a member, list item, key, value, input or output."""

    shape: str
    location_name: str | None = None
    query_name: str | None = None
    location: str | None = None
    result_wrapper: str | None = None


class Shape(msgspec.Struct, rename="camel", frozen=True):
    """A type on the wire."""

    type: str
    members: dict[str, Ref] = {}
    required: list[str] = []
    member: Ref | None = None
    key: Ref | None = None
    value: Ref | None = None
    enum: list[str] | None = None
    min: float | None = None
    max: float | None = None


class Http(msgspec.Struct, rename="camel", frozen=True):
    """Where an operation of a REST protocol lives."""

    method: str = "POST"
    request_uri: str = "/"
    response_code: int | None = None


class Operation(msgspec.Struct, rename="camel", frozen=True):
    """One action of a service."""

    name: str
    http: Http = Http()
    input: Ref | None = None
    output: Ref | None = None


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """What holds for a whole service."""

    api_version: str
    protocol: str
    endpoint_prefix: str
    json_version: str = "1.1"
    target_prefix: str | None = None
    xml_namespace: str | None = None
    aws_query_compatible: dict[str, str] | None = None


class _Description(msgspec.Struct, frozen=True):
    metadata: Metadata
    operations: dict[str, Operation]
    shapes: dict[str, Shape]


class Service:
    """One service's description, with what the protocols ask of it again and again."""

    def __init__(self, name: str, description: _Description) -> None:
        self.name = name
        self.metadata = description.metadata
        self.protocol = description.metadata.protocol
        self.operations: Mapping[str, Operation] = description.operations
        self.shapes: Mapping[str, Shape] = description.shapes
        self.namespace = description.metadata.xml_namespace or (
            f"http://{name}.amazonaws.com/doc/{description.metadata.api_version}"
        )

    def shape(self, ref: Ref) -> Shape:
        """Gives the shape that a reference names."""
        return self.shapes[ref.shape]


@cache
def service(name: str) -> Service:
    """Reads a service's description, once.

    Raises:
        SchemaMissingError: botocore is not installed or has no such service.
    """
    return Service(name, msgspec.json.decode(_text(name), type=_Description))


def _text(name: str) -> bytes:
    spec = importlib.util.find_spec("botocore")
    for place in spec.submodule_search_locations or () if spec else ():
        # Versions are dates; the newest is the one that SDKs speak.
        for version in sorted(Path(place, "data", name).glob("*-*-*"), reverse=True):
            if (packed := version / "service-2.json.gz").exists():
                return gzip.decompress(packed.read_bytes())
            if (plain := version / "service-2.json").exists():
                return plain.read_bytes()
    raise SchemaMissingError(
        f"botocore's description of the service {name} is missing", hint="pip install 'boto3>=1.40'"
    )
