# SPDX-License-Identifier: Apache-2.0
"""What is served, as clients discover it: groups, versions and resources, one by one or aggregated."""

from __future__ import annotations

from typing import Any, Final

from karpenter.sandbox.kube.kinds.catalogue import Catalogue, Resource
from karpenter.sandbox.kube.kinds.shapes import builtin_facts

__all__ = ["aggregated", "group", "groups", "resources", "version", "wants_aggregated"]

Object = dict[str, Any]
_AGGREGATED: Final = ("g=apidiscovery.k8s.io", "as=APIGroupDiscoveryList")


def wants_aggregated(accept: str) -> str:
    """Gives the version of aggregated discovery that a client takes, or nothing."""
    for each in accept.replace(" ", "").split(","):
        if all(word in each for word in _AGGREGATED):
            return "v2" if "v=v2" in each and "v=v2beta1" not in each else "v2beta1"
    return ""


def aggregated(catalogue: Catalogue, *, core: bool, form: str) -> Object:
    """Gives all groups with all their resources in one answer."""
    told = {"": ["v1"]} if core else catalogue.groups()
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": each,
                        "resources": [_aggregated(found) for found in _sorted(catalogue, name, each)],
                        "freshness": "Current",
                    }
                    for each in versions
                ],
            }
            for name, versions in told.items()
        ],
    }


def _sorted(catalogue: Catalogue, name: str, version_name: str) -> list[Resource]:
    return sorted(catalogue.of_version(name, version_name), key=lambda each: each.plural)


def _kind(entry: Any, fallback: str) -> Object:
    return {
        "group": entry.get("group", ""),
        "version": entry.get("version", ""),
        "kind": entry.get("kind", fallback),
    }


def _aggregated(resource: Resource) -> Object:
    custom = resource.definition is not None
    own = {"group": resource.group, "version": resource.version} if custom else {"group": "", "version": ""}
    told: Object = {
        "resource": resource.plural,
        "responseKind": {**own, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular or resource.kind.lower(),
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        told["shortNames"] = list(resource.short_names)
    if resource.categories:
        told["categories"] = list(resource.categories)
    if resource.subresources:
        told["subresources"] = [
            {
                "subresource": name,
                "responseKind": {
                    **(own if custom and "group" not in entry else {}),
                    **_kind({**(own if custom else {}), **entry}, resource.kind),
                },
                "verbs": list(entry["verbs"]),
            }
            for name, entry in sorted(resource.subresources.items())
        ]
    return told


def groups(catalogue: Catalogue) -> Object:
    """Gives the list of groups."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in catalogue.groups().items()],
    }


def _group(name: str, versions: list[str]) -> Object:
    listed = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group(catalogue: Catalogue, name: str) -> Object | None:
    """Gives one group; None where there is none."""
    versions = catalogue.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resources(catalogue: Catalogue, name: str, version_name: str) -> Object | None:
    """Gives the resources of a version; None where there is no such version."""
    found = _sorted(catalogue, name, version_name)
    if not found:
        return None
    listed: list[Object] = []
    for each in found:
        listed.append(_listed(each))
        for entry in sorted(each.subresources.values(), key=lambda sub: str(sub["name"])):
            told = {key: value for key, value in entry.items() if key in {"group", "version"}}
            listed.append(
                {
                    "name": entry["name"],
                    "singularName": "",
                    "namespaced": each.namespaced,
                    **told,
                    "kind": entry["kind"],
                    "verbs": list(entry["verbs"]),
                }
            )
    head: Object = {"kind": "APIResourceList"}
    if name:
        head["apiVersion"] = "v1"
    return {**head, "groupVersion": f"{name}/{version_name}" if name else version_name, "resources": listed}


def _listed(resource: Resource) -> Object:
    told: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        told["shortNames"] = list(resource.short_names)
    if resource.categories:
        told["categories"] = list(resource.categories)
    if resource.hash:
        told["storageVersionHash"] = resource.hash
    return told


def version(announced: str = "") -> Object:
    """Return the version to announce, such as 1.32; by default the one whose behaviour is modelled."""
    release = str(builtin_facts()["release"])
    if announced and not release.startswith(f"v{announced}."):
        release = f"v{announced}.0"
    _, minor, _ = release.split(".")
    return {
        "major": "1",
        "minor": minor,
        "emulationMajor": "1",
        "emulationMinor": minor,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": release,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "sandbox",
    }
