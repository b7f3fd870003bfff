# SPDX-License-Identifier: Apache-2.0
"""Which resources the API serves: the built-in ones, by data, and those that CustomResourceDefinitions bring.

A resource is one version of one kind under one path. Versions of a kind share their objects (``storage_key``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api.schema import Definition
from karpenter.sandbox.kube.kinds.shapes import Shape, builtin_facts, builtin_shape, custom_shape

__all__ = ["Catalogue", "Resource"]

_DEFINITION_GROUPS: Final = {
    "": "core",
    "rbac.authorization.k8s.io": "rbac",
    "apiextensions.k8s.io": "",
}
# Two paths to the same objects.
_SHARED_STORAGE: Final = {"events.k8s.io/events": "/events"}
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_METRICS: Final = (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One version of one kind, as it is served."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    shape: Shape
    storage_key: str
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # As discovery lists them: name (without the resource's), kind, group and version of their own, verbs.
    subresources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: tuple[tuple[str, str, str, int], ...] = ()
    definition: Definition | None = None
    crd: Mapping[str, Any] | None = None
    version_spec: Mapping[str, Any] | None = None
    hash: str = ""

    @property
    def api_version(self) -> str:
        """Gives group and version as they stand in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Gives the resource's name with its group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_stored(self) -> bool:
        """Tells whether objects of the kind are kept."""
        return "get" in self.verbs

    @property
    def has_status(self) -> bool:
        """Tells whether status is written apart from the rest."""
        return "status" in self.subresources


class Catalogue:
    """What is served now."""

    def __init__(self) -> None:
        self._builtin: dict[tuple[str, str, str], Resource] = {}
        self._custom: dict[tuple[str, str, str], Resource] = {}
        for group_version, listed in builtin_facts()["resources"].items():
            for resource in _builtin(group_version, listed):
                self._builtin[resource.group, resource.version, resource.plural] = resource
        for plural, kind, namespaced in _METRICS:
            self._builtin["metrics.k8s.io", "v1beta1", plural] = Resource(
                "metrics.k8s.io",
                "v1beta1",
                plural,
                kind,
                namespaced,
                ("get", "list"),
                Shape("any"),
                "",
                list_kind=f"{kind}List",
            )

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Gives the resource under a path."""
        key = (group, version, plural)
        return self._builtin.get(key) or self._custom.get(key)

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """Gives a resource of a kind, in any version."""
        return next((each for each in self if each.group == group and each.kind == kind), None)

    def __iter__(self) -> Any:
        return iter((*self._builtin.values(), *self._custom.values()))

    def groups(self) -> dict[str, list[str]]:
        """Gives the versions of each group but the core, the preferred one first."""
        found: dict[str, dict[str, None]] = {}
        for each in self:
            if each.group:
                found.setdefault(each.group, {})[each.version] = None
        return {
            group: sorted(versions, key=_version_order, reverse=True) for group, versions in found.items()
        }

    def of_version(self, group: str, version: str) -> list[Resource]:
        """Gives the resources of one version of a group."""
        return [each for each in self if (each.group, each.version) == (group, version)]

    def is_builtin(self, group: str) -> bool:
        """Tells whether a group is served without definitions."""
        return any(each.group == group for each in self._builtin.values())

    def set_custom(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Serves the kinds of these definitions and no other custom ones."""
        known = {(each.group, each.version, each.plural): each for each in self._custom.values()}
        fresh: dict[tuple[str, str, str], Resource] = {}
        for crd in crds:
            for version in crd["spec"]["versions"]:
                if not version.get("served"):
                    continue
                key = (crd["spec"]["group"], version["name"], crd["spec"]["names"]["plural"])
                old = known.get(key)
                # A definition that did not change keeps what was compiled for it.
                if old is not None and old.crd is not None and old.crd["spec"] == crd["spec"]:
                    fresh[key] = old
                else:
                    fresh[key] = _custom(crd, version)
        self._custom = fresh


def _builtin(group_version: str, listed: list[dict[str, Any]]) -> list[Resource]:
    group, _, version = group_version.rpartition("/")
    facts = builtin_facts()
    resources = []
    for each in listed:
        if "/" in each["name"]:
            continue
        name = each["name"]
        key = f"{group}/{name}"
        resources.append(
            Resource(
                group=group,
                version=version,
                plural=name,
                kind=each["kind"],
                namespaced=each["namespaced"],
                verbs=tuple(each["verbs"]),
                shape=builtin_shape(_definition(group, version, each["kind"])),
                storage_key=_SHARED_STORAGE.get(key, key),
                singular=each["singularName"],
                list_kind=f"{each['kind']}List",
                short_names=tuple(each.get("shortNames", ())),
                categories=tuple(each.get("categories", ())),
                subresources={
                    other["name"].partition("/")[2]: other
                    for other in listed
                    if other["name"].startswith(f"{name}/")
                },
                columns=tuple(
                    tuple(column) for column in facts["columns"].get(f"{group_version}/{name}", ())
                ),
                hash=each.get("storageVersionHash", ""),
            )
        )
    return resources


def _definition(group: str, version: str, kind: str) -> str:
    if group == "apiextensions.k8s.io":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"
    return f"io.k8s.api.{_DEFINITION_GROUPS.get(group, group.partition('.')[0])}.{version}.{kind}"


def _custom(crd: Mapping[str, Any], version: Mapping[str, Any]) -> Resource:
    spec = crd["spec"]
    names = spec["names"]
    group, plural = spec["group"], names["plural"]
    namespaced = spec["scope"] == "Namespaced"
    subresources: dict[str, dict[str, Any]] = {}
    told = version.get("subresources") or {}
    if told.get("status") is not None:
        subresources["status"] = {"kind": names["kind"], "verbs": ["get", "patch", "update"]}
    if told.get("scale") is not None:
        subresources["scale"] = {
            "kind": "Scale",
            "group": "autoscaling",
            "version": "v1",
            "verbs": ["get", "patch", "update"],
        }
    for name, entry in subresources.items():
        entry |= {"name": f"{plural}/{name}", "namespaced": namespaced, "singularName": ""}
    return Resource(
        group=group,
        version=version["name"],
        plural=plural,
        kind=names["kind"],
        namespaced=namespaced,
        verbs=_CUSTOM_VERBS,
        shape=custom_shape((version.get("schema") or {}).get("openAPIV3Schema")),
        storage_key=f"{group}/{plural}",
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
        definition=Definition(crd, version),
        crd=crd,
        version_spec=version,
    )


def _version_order(version: str) -> tuple[int, int, int, str]:
    """Orders versions as Kubernetes does: v2 before v1 before v1beta1 before v1alpha1 before anything else."""
    digits = version[1:]
    for rank, word in ((2, "beta"), (1, "alpha")):
        major, found, minor = digits.partition(word)
        if found and major.isdigit():
            return (rank, int(major), int(minor or 0), "")
    return (3, int(digits), 0, "") if version[:1] == "v" and digits.isdigit() else (0, 0, 0, version)
