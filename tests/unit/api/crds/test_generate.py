# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar

import pytest

from karpenter.api.base import EMPTY, Frozen, RawQuantity, Resources
from karpenter.api.crds.generate import UnknownShapeError, carry, definition, object_schema, version_schemas
from karpenter.api.crds.vocabulary import Column, Kind, Rule, Scale, Schema, Version
from karpenter.api.meta import ObjectMeta


class Inner(Frozen):
    """Something inside.

    More that nobody needs in a schema.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (Rule("self.size != 1", "one is too few", ".size"),)

    size: Annotated[int, Schema("How big.", minimum=0, maximum=9, format="int32")]
    words: Annotated[tuple[str, ...], Schema(items=Schema(pattern="^a"), list_type="set", max_items=3)] = ()


class Spec(Frozen):
    """What is wanted."""

    inner: Inner
    again: Annotated[
        Inner, Schema("Said here.", rules=(Rule("true", "never"),), fields={"size": Schema("Sized.")})
    ]
    maybe: Inner | None = None
    flag: bool = False
    when: datetime | None = None
    quantity: Annotated[RawQuantity | None, Schema("Some.")] = None
    amounts: Resources = EMPTY
    names: Annotated[
        Mapping[str, str], Schema(max_properties=5, items=Schema(max_length=63), map_type="atomic")
    ] = EMPTY
    raw: Mapping[str, Any] = EMPTY
    mode: Annotated[str, Schema(required=True, default="on", enum=("on", "off"), min_length=2)] = "on"
    keyed: Annotated[tuple[Inner, ...], Schema(list_type="map", list_keys=("size",), min_items=1)] = ()
    plain: Annotated[int, "not for us"] = 0


class Thing(Frozen):
    """A thing."""

    api_version: str = "example.com/v1"
    kind: str = "Thing"
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec


def spec_of(kind: type) -> dict[str, Any]:
    properties: dict[str, Any] = object_schema(kind)["properties"]["spec"]["properties"]
    return properties


def test_apiversion_kind_and_metadata_are_left_to_the_api_server() -> None:
    schema = object_schema(Thing)

    assert schema["description"] == "A thing."
    assert schema["required"] == ["spec"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["kind"]["type"] == "string"


def test_a_field_without_default_is_required_unless_said_otherwise() -> None:
    schema = object_schema(Thing)["properties"]["spec"]

    assert schema["required"] == ["again", "inner", "mode"]


def test_a_struct_gives_its_first_line_its_fields_and_its_rules() -> None:
    assert spec_of(Thing)["inner"] == {
        "description": "Something inside.",
        "type": "object",
        "properties": {
            "size": {
                "description": "How big.",
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "maximum": 9,
            },
            "words": {
                "type": "array",
                "items": {"type": "string", "pattern": "^a"},
                "maxItems": 3,
                "x-kubernetes-list-type": "set",
            },
        },
        "required": ["size"],
        "x-kubernetes-validations": [
            {"rule": "self.size != 1", "message": "one is too few", "fieldPath": ".size"}
        ],
    }


def test_what_is_said_at_the_place_of_use_goes_before_what_the_type_says() -> None:
    again = spec_of(Thing)["again"]

    assert again["description"] == "Said here."
    assert again["properties"]["size"] == {"description": "Sized.", "type": "integer"}
    assert [rule["rule"] for rule in again["x-kubernetes-validations"]] == ["self.size != 1", "true"]


def test_an_optional_struct_is_the_struct() -> None:
    properties = spec_of(Thing)

    assert properties["maybe"] == properties["inner"]


def test_scalars_maps_quantities_and_raw_objects_have_their_shapes() -> None:
    properties = spec_of(Thing)
    quantity = properties["amounts"]["additionalProperties"]

    assert properties["flag"] == {"type": "boolean"}
    assert properties["when"] == {"type": "string", "format": "date-time"}
    assert properties["plain"] == {"type": "integer"}
    assert quantity["x-kubernetes-int-or-string"] is True
    assert quantity["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert properties["quantity"] == {"description": "Some.", **quantity}
    assert properties["raw"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert properties["names"] == {
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": 63},
        "maxProperties": 5,
        "x-kubernetes-map-type": "atomic",
    }
    assert properties["mode"] == {"type": "string", "enum": ["on", "off"], "minLength": 2, "default": "on"}
    assert properties["keyed"]["x-kubernetes-list-map-keys"] == ["size"]
    assert properties["keyed"]["minItems"] == 1


class Pair(Frozen):
    both: int | str = 0


class Fixed(Frozen):
    pair: tuple[int, int] = (0, 0)


class Complex(Frozen):
    number: complex = 0j


@pytest.mark.parametrize("kind", [Pair, Fixed, Complex])
def test_a_type_that_no_schema_can_express_is_refused(kind: type) -> None:
    with pytest.raises(UnknownShapeError, match="no structural schema can express"):
        object_schema(kind)


def test_a_version_carries_what_only_another_knows_bare_of_defaults_and_checks() -> None:
    new = {"type": "object", "properties": {"kept": {"type": "string", "default": "a"}}}
    old = {
        "type": "object",
        "required": ["gone"],
        "properties": {
            "kept": {"type": "string", "default": "b"},
            "gone": {"description": "Gone.", "type": "string", "pattern": "^x", "default": "x"},
            "deep": {
                "type": "object",
                "required": ["a"],
                "properties": {
                    "a": {"type": "array", "maxItems": 1, "items": {"type": "integer", "minimum": 1}}
                },
                "x-kubernetes-validations": [{"rule": "true", "message": ""}],
            },
        },
    }

    carried = carry(new, old, "v0")

    note = "Known to v0 only; kept so that nothing is lost between versions."
    assert carried == {
        "type": "object",
        "properties": {
            "deep": {
                "description": note,
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
            },
            "gone": {"description": note, "type": "string"},
            "kept": {"type": "string", "default": "a"},
        },
    }
    assert "gone" not in new["properties"]


def test_carrying_goes_into_lists_and_maps() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    other = {"type": "object", "properties": {"b": {"type": "string"}}}

    for place in ("items", "additionalProperties"):
        carried = carry({"type": "x", place: inner}, {"type": "x", place: other}, "v0")

        assert set(carried[place]["properties"]) == {"a", "b"}


def test_where_versions_differ_in_type_each_keeps_its_own() -> None:
    assert carry({"type": "string"}, {"type": "object", "properties": {}}, "v0") == {"type": "string"}


class OldThing(Frozen):
    """A thing, as it was."""

    spec: Annotated[Inner, Schema(required=False)] = Inner(size=0)


TWO = Kind(
    "example.com",
    "Thing",
    "things",
    (
        Version(
            "v2",
            Thing,
            storage=True,
            scale=Scale(".spec.replicas", ".status.replicas"),
            columns=(Column("Size", ".spec.inner.size", "integer", priority=1), Column("Mode", ".spec.mode")),
        ),
        Version("v1", OldThing, deprecation="write v2"),
    ),
    scope="Namespaced",
    short_names=("th",),
    categories=("all",),
)


def test_a_definition_names_everything_the_api_server_asks_for() -> None:
    crd = definition(TWO)
    first, second = crd["spec"]["versions"]

    assert crd["metadata"]["name"] == "things.example.com"
    assert crd["spec"]["names"] == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "things",
        "singular": "thing",
        "categories": ["all"],
        "shortNames": ["th"],
    }
    assert (crd["spec"]["scope"], crd["spec"]["conversion"]) == ("Namespaced", {"strategy": "None"})
    assert (first["name"], first["storage"], "deprecated" in first) == ("v2", True, False)
    assert first["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.inner.size", "priority": 1},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
    ]
    assert first["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }
    assert (second["deprecated"], second["deprecationWarning"]) == (True, "write v2")
    assert second["subresources"] == {"status": {}}
    assert "additionalPrinterColumns" not in second
    assert TWO.file_name == "example.com_things.yaml"


def test_one_version_needs_no_conversion() -> None:
    alone = Kind("example.com", "Thing", "things", TWO.versions[:1])

    assert "conversion" not in definition(alone)["spec"]
    assert version_schemas(alone)["v2"] == object_schema(Thing)


def test_each_of_two_versions_carries_the_fields_of_the_other() -> None:
    schemas = version_schemas(TWO)

    new, old = (schemas[name]["properties"]["spec"]["properties"] for name in ("v2", "v1"))
    assert set(new) == set(old)
    assert new["size"] == {
        "description": "Known to v1 only; kept so that nothing is lost between versions.",
        "type": "integer",
        "format": "int32",
    }
