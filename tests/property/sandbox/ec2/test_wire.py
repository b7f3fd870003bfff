# SPDX-License-Identifier: Apache-2.0
"""botocore is the oracle: what its serialisers write we read as it was meant, and its parsers read what we write."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.sandbox.ec2.front.answers import success
from karpenter.sandbox.ec2.front.routing import Arrived, operation_of, parameters_of
from karpenter.sandbox.ec2.front.schema import service

OPERATIONS = [
    ("ec2", "CreateFleet"),
    ("ec2", "CreateLaunchTemplate"),
    ("ec2", "RunInstances"),
    ("ec2", "DescribeInstances"),
    ("ec2", "DescribeInstanceTypes"),
    ("ec2", "DescribeSpotPriceHistory"),
    ("ec2", "TerminateInstances"),
    ("ec2", "CreateTags"),
    ("iam", "CreateInstanceProfile"),
    ("iam", "ListInstanceProfiles"),
    ("sts", "AssumeRole"),
    ("sqs", "ReceiveMessage"),
    ("sqs", "SendMessageBatch"),
    ("ssm", "GetParametersByPath"),
    ("eks", "DescribeCluster"),
    ("eks", "CreateAccessEntry"),
    ("pricing", "GetProducts"),
    ("events", "PutEvents"),
    ("arc-zonal-shift", "GetManagedResource"),
]
_DEPTH = 3
_text = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff")
)
_models: dict[str, ServiceModel] = {}


def model(name: str) -> ServiceModel:
    if name not in _models:
        _models[name] = ServiceModel(Loader().load_service_model(name, "service-2"), name)
    return _models[name]


def values(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Gives values of a shape, filled in down to a depth."""
    kind = shape.type_name
    low, high = int(shape.metadata.get("min", 0)), int(shape.metadata.get("max", 60))
    if kind == "structure":
        return structures(shape, depth)
    if kind == "list":
        return st.lists(values(shape.member, depth + 1), min_size=max(low, 1), max_size=max(low, 3))
    if kind == "map":
        return st.dictionaries(
            values(shape.key, depth + 1), values(shape.value, depth + 1), min_size=1, max_size=3
        )
    return scalars(shape, low, high)


def structures(shape: Shape, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """Gives structures that are not empty, because forms cannot tell an empty one from none."""
    members, required = shape.members, shape.required_members
    plain = [name for name in members if members[name].type_name not in {"structure", "list", "map"}]
    names = sorted(plain if depth >= _DEPTH and (plain or required) else members)
    if not names:
        return st.just({})
    chosen = st.lists(st.sampled_from(names), min_size=0 if required else 1, max_size=4, unique=True)
    return chosen.flatmap(
        lambda some: st.fixed_dictionaries(
            {name: values(members[name], depth + 1) for name in sorted({*some, *required})}
        )
    )


def scalars(shape: Shape, low: int, high: int) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one a kind
    """Gives numbers, texts, times and bytes within a shape's bounds."""
    kind = shape.type_name
    if kind in {"integer", "long"}:
        return st.integers(low, max(min(high, 2**31 - 1), low))
    if kind in {"float", "double"}:
        return st.floats(0, 1e6, allow_nan=False)
    if kind == "boolean":
        return st.booleans()
    if kind == "timestamp":
        return st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
    if kind == "blob":
        return st.binary(min_size=max(low, 1), max_size=20)
    if getattr(shape, "enum", None):
        return st.sampled_from(shape.enum)
    return _text.filter(bool).map(lambda text: (text * (low or 1))[: max(min(high, 60), low)])


def _sent(name: str, operation: str, parameters: dict[str, Any]) -> Arrived:
    described = model(name)
    wire = create_serializer(described.metadata["protocol"], include_validation=False).serialize_to_request(
        parameters, described.operation_model(operation)
    )
    body = wire["body"]
    if isinstance(body, dict):
        body = urlencode(body, doseq=True)
    path = wire["url_path"]
    if wire["query_string"]:
        path += f"{'&' if '?' in path else '?'}{urlencode(wire['query_string'], doseq=True)}"
    raw = body.encode() if isinstance(body, str) else body
    return Arrived(wire["method"], path, dict(wire["headers"]), raw)


@pytest.mark.parametrize(("name", "operation"), OPERATIONS)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_parameters_arrive_as_they_were_passed(name: str, operation: str, data: st.DataObject) -> None:
    shape = model(name).operation_model(operation).input_shape
    parameters = data.draw(values(shape))
    described = service(name)

    arrived = _sent(name, operation, parameters)
    found = operation_of(described, arrived)

    assert found.name == operation
    assert parameters_of(described, found, arrived) == parameters


@pytest.mark.parametrize(("name", "operation"), OPERATIONS)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_results_are_read_as_they_were_given(name: str, operation: str, data: st.DataObject) -> None:
    described, oracle = service(name), model(name).operation_model(operation)
    if oracle.output_shape is None:
        return
    result = data.draw(values(oracle.output_shape))

    answer = success(described, described.operations[operation], result, "rid")
    parser = create_parser(model(name).metadata["protocol"])
    read = parser.parse(
        {"status_code": answer.status, "headers": dict(answer.headers), "body": answer.body},
        oracle.output_shape,
    )

    del read["ResponseMetadata"]
    assert _plain(read) == _plain(result)


def _plain(value: Any) -> Any:
    # Times come back in the zone of the machine, and empty structures as absent ones; neither is ours to judge.
    return json.loads(
        json.dumps(value, default=lambda each: each.timestamp() if isinstance(each, datetime) else each.hex())
    )
