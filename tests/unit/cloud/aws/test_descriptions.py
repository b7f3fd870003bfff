# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import boto3
import botocore.session
import pytest
from botocore import xform_name

from karpenter.cloud.aws.calls import CALLS
from karpenter.cloud.aws.descriptions import described_session

SERVICES = sorted({service for service, _ in CALLS})


def _client(service: str, session: Any) -> Any:
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
    return boto3.Session(botocore_session=session, region_name="us-west-2", **keys).client(service)


@pytest.mark.parametrize("service", SERVICES)
def test_every_call_that_we_make_is_known_with_all_its_parts(service: str) -> None:
    spared = _client(service, described_session())
    whole = _client(service, botocore.session.get_session())

    for _, operation in (key for key in CALLS if key[0] == service):
        known = spared.meta.service_model.operation_model(operation)
        meant = whole.meta.service_model.operation_model(operation)
        assert hasattr(spared, xform_name(operation))
        for mine, theirs in (
            (known.input_shape, meant.input_shape),
            (known.output_shape, meant.output_shape),
        ):
            assert _outline(mine) == _outline(theirs)
        assert [each.name for each in known.error_shapes] == [each.name for each in meant.error_shapes]


def test_what_nobody_calls_is_not_kept() -> None:
    model = _client("ec2", described_session()).meta.service_model

    assert set(model.operation_names) == {operation for service, operation in CALLS if service == "ec2"}
    assert "documentation" not in str(model._service_description)[:100_000]
    assert len(model.shape_names) < 1500


def test_a_document_that_is_not_there_is_nothing() -> None:
    loader = described_session().get_component("data_loader").file_loader

    assert loader.load_file("/no/such/service-2") is None
    assert not loader.exists("/no/such/service-2")


def _outline(shape: Any, seen: frozenset[str] = frozenset()) -> Any:
    """What a shape is made of, down to the leaves."""
    if shape is None or shape.name in seen:
        return shape and shape.name
    seen |= {shape.name}
    if shape.type_name == "structure":
        return {name: _outline(member, seen) for name, member in shape.members.items()}
    if shape.type_name == "list":
        return [_outline(shape.member, seen)]
    if shape.type_name == "map":
        return (_outline(shape.key, seen), _outline(shape.value, seen))
    return shape.type_name, shape.name
