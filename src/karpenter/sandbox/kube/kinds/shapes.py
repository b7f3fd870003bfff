# SPDX-License-Identifier: Apache-2.0
"""The shape of objects: which fields there are, how lists and maps merge, what Go would write for an empty field.

Made from OpenAPI, of the built-in kinds (``builtin.json.xz``, written by ``tools/kube_schemas.py``) or of a
CustomResourceDefinition. Reading, patching, server-side apply and field sets all walk the same shapes.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Final

__all__ = ["ANYTHING", "Field", "Shape", "builtin_facts", "builtin_shape", "custom_shape", "reaching"]

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SPECIAL: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
}
_SCALARS: Final = frozenset({"string", "integer", "boolean", "number"})


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Attributes:
        shape: What it holds.
        go: Its Go type, as errors name it.
        pointer: Absent and zero are different things.
        omitted: Left out when zero.
        vanishes: Left out when zero even though it is a struct.
        strategies: Of strategic merge patches.
        merge_key: By which items of a list are the same item in a strategic merge patch.
        default: What the schema says an absent key of a list item counts as.
        enum: The allowed values.
        number: Its number in the protobuf message; more than one where the message nests what JSON does not.
    """

    shape: Shape
    go: str = ""
    pointer: bool = True
    omitted: bool = True
    vanishes: bool = False
    strategies: tuple[str, ...] = ()
    merge_key: str = ""
    default: Any = None
    enum: tuple[Any, ...] = ()
    number: tuple[int, ...] = ()


@dataclass(eq=False)
class Shape:
    """What a value looks like; two shapes are the same only if they are one object.

    Attributes:
        kind: ``struct``, ``map``, ``list``, ``scalar`` or ``any``.
        scalar: ``string``, ``integer``, ``boolean``, ``number``, ``bytes``, ``quantity``, ``int-or-string``, ``time``
            or ``microtime``.
        name: The struct's name in Go.
        definition: The full name of the definition.
        package: The Go package that its own types are named after.
        element: The shape of a map's values or of a list's items.
        list_type: ``atomic``, ``set`` or ``map``.
        keys: The fields that tell items of a ``map`` list apart.
        atomic: A struct or map that changes as a whole.
    """

    kind: str
    scalar: str = ""
    name: str = ""
    definition: str = ""
    package: str = "v1"
    element: Shape | None = None
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    atomic: bool = False
    preserves: bool = False
    required: tuple[str, ...] = ()
    make_fields: Callable[[], dict[str, Field]] = field(default=dict, repr=False)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """Gives the fields of a struct by their JSON names."""
        return self.make_fields()

    def below(self, key: str) -> Shape | None:
        """Gives the shape of a field or of a map's value; none where nothing is known of it."""
        found = self.fields.get(key) if self.kind == "struct" else None
        if found is not None:
            return found.shape
        return (
            self.element if self.kind == "map" else ANYTHING if self.preserves or self.kind == "any" else None
        )


ANYTHING: Final = Shape("any", preserves=True)


@lru_cache(maxsize=1)
def builtin_facts() -> dict[str, Any]:
    """Gives what is known of the built-in kinds: schemas, resources and columns."""
    packed = resources.files("karpenter.sandbox.kube.kinds").joinpath("builtin.json.xz").read_bytes()
    facts: dict[str, Any] = json.loads(lzma.decompress(packed))
    return facts


@lru_cache(maxsize=1024)
def builtin_shape(definition: str) -> Shape:
    """Gives the shape of a built-in definition, by its full name."""
    if definition in _SPECIAL:
        return Shape("scalar", scalar=_SPECIAL[definition], name=definition.rpartition(".")[2])
    schema = builtin_facts()["schemas"][definition]
    package, _, name = definition.rpartition(".")
    short = package.rpartition(".")[2]
    if "properties" not in schema:
        loose = schema.get("type") == "object" and name == "CustomResourceSubresourceStatus"
        return Shape("any", name=name, definition=definition, package=short, atomic=not loose, preserves=True)
    return Shape(
        "struct",
        name=name,
        definition=definition,
        package=short,
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        required=tuple(schema.get("required", ())),
        make_fields=lambda: {
            key: _builtin_field(inner, short) for key, inner in schema["properties"].items()
        },
    )


def _builtin_field(schema: Mapping[str, Any], package: str) -> Field:
    go, _, options = schema.get("x-go", "*,omitempty").partition(",")
    strategy = schema.get("x-kubernetes-patch-strategy", "")
    return Field(
        shape=_builtin_part(schema),
        go=_go_name(go, package),
        pointer=go.startswith("*"),
        omitted="omitempty" in options,
        vanishes="omitzero" in options,
        strategies=tuple(strategy.split(",")) if strategy else (),
        merge_key=schema.get("x-kubernetes-patch-merge-key", ""),
        default=schema.get("default"),
        enum=tuple(schema.get("enum", ())),
        number=tuple(int(each) for each in schema.get("x-proto", "").split("/") if each),
    )


def _builtin_part(schema: Mapping[str, Any]) -> Shape:
    reference = schema.get("$ref") or next(
        (each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), ""
    )
    if reference:
        shape = builtin_shape(reference.removeprefix(_REF))
        map_type = schema.get("x-kubernetes-map-type", "")
        if map_type and (map_type == "atomic") != shape.atomic:
            return Shape(**{**_own(shape), "atomic": map_type == "atomic"})
        return shape
    kind = schema.get("type", "")
    if kind == "array":
        return Shape(
            "list",
            element=_builtin_part(schema["items"]),
            list_type=schema.get("x-kubernetes-list-type", "atomic"),
            keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        )
    if kind == "object":
        inner = schema.get("additionalProperties")
        return Shape(
            "map",
            element=_builtin_part(inner) if isinstance(inner, Mapping) else ANYTHING,
            atomic=schema.get("x-kubernetes-map-type") == "atomic",
        )
    if kind in _SCALARS:
        return Shape("scalar", scalar="bytes" if schema.get("format") == "byte" else kind)
    return ANYTHING


def _own(shape: Shape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in Shape.__dataclass_fields__}


def _go_name(go: str, package: str) -> str:
    """Gives a Go type as an error names it: without pointer, with its package."""
    bare = go.lstrip("*").replace("metav1.", "v1.").replace("corev1.", "v1.")
    return re.sub(r"(?<![\w.])([A-Z]\w*)", rf"{package}.\1", bare)


def custom_shape(schema: Mapping[str, Any] | None) -> Shape:
    """Gives the shape of a custom object, by the schema of its definition."""
    shape = _custom_part(schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    fields = {
        **shape.fields,
        "apiVersion": Field(Shape("scalar", scalar="string")),
        "kind": Field(Shape("scalar", scalar="string")),
        "metadata": Field(builtin_shape(_META), pointer=False),
    }
    return Shape(
        "struct", name="", preserves=shape.preserves or shape.kind == "any", make_fields=lambda: fields
    )


def _custom_part(schema: Mapping[str, Any]) -> Shape:
    kind = schema.get("type", "")
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if schema.get("x-kubernetes-int-or-string"):
        return Shape("scalar", scalar="int-or-string")
    if kind == "array":
        return Shape(
            "list",
            element=_custom_part(schema.get("items", {})),
            list_type=schema.get("x-kubernetes-list-type", "atomic"),
            keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        )
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if kind == "object" and "properties" in schema:
        properties = schema["properties"]
        return Shape(
            "struct",
            atomic=atomic,
            preserves=preserves,
            make_fields=lambda: {
                key: Field(_custom_part(inner), default=inner.get("default"))
                for key, inner in properties.items()
            },
        )
    inner = schema.get("additionalProperties")
    if kind == "object" and isinstance(inner, Mapping):
        return Shape("map", element=_custom_part(inner), atomic=atomic)
    return Shape("scalar", scalar=kind) if kind in _SCALARS else ANYTHING


def reaching(is_meant: Callable[[Shape], bool]) -> Callable[[Shape], bool]:
    """Gives what tells whether a shape, or any below it, is meant; each shape is walked once."""
    known: dict[int, tuple[Shape, bool]] = {}

    def reaches(shape: Shape, seen: tuple[int, ...] = ()) -> bool:
        found = known.get(id(shape))
        if found is not None and found[0] is shape:
            return found[1]
        if id(shape) in seen:
            return False
        inner = (
            [shape.element] if shape.element is not None else [each.shape for each in shape.fields.values()]
        )
        answer = is_meant(shape) or any(reaches(each, (*seen, id(shape))) for each in inner)
        if not seen or answer:
            # The shape is kept too, so that its id stays its own.
            known[id(shape)] = (shape, answer)
        return answer

    return reaches
