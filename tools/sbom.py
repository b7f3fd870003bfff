# SPDX-License-Identifier: Apache-2.0
"""Writes what the product is made of as a CycloneDX document: `python -m tools.sbom > dist/sbom.json`.

Reads the locked requirements, so the document names exactly the releases and files that an installation with hashes
accepts. The same lock gives the same bytes: no time and no random number is in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

__all__ = ["bill_of_materials", "read_lock"]

_ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def read_lock(text: str) -> list[dict[str, Any]]:
    """Give name, version, marker and accepted hashes of each package of a lock.

    Raises:
        ValueError: A line is neither a pin nor a hash, or a package has no hash.
    """
    packages: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        pin, digest = _PIN.match(line), _HASH.search(line)
        if pin:
            name, version, marker = pin.groups()
            packages.append({"name": name.lower(), "version": version, "marker": marker or "", "hashes": []})
        elif digest and packages:
            packages[-1]["hashes"].append(digest[1])
        elif line.strip() and not line.lstrip().startswith("#"):
            raise ValueError(f"line {number} is neither name==version nor a hash: {line.strip()}")
    bare = [each["name"] for each in packages if not each["hashes"]]
    if bare:
        raise ValueError(f"packages without a hash: {', '.join(bare)}")
    return packages


def bill_of_materials(lock: str, project: dict[str, Any]) -> dict[str, Any]:
    """Give the document for a lock and the [project] table of pyproject.toml."""
    name, version = project["name"], project["version"]
    purl = f"pkg:pypi/{name}@{version}"
    components = [_component(each) for each in read_lock(lock)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The document's name follows from its content.
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(lock.encode()).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _component(package: dict[str, Any]) -> dict[str, Any]:
    purl = f"pkg:pypi/{package['name']}@{package['version']}"
    marker = [{"name": "python:marker", "value": package["marker"]}] if package["marker"] else []
    # One release has many files, one for each platform; a component has room for one file's hash only.
    files = [{"name": "python:accepted-sha256", "value": each} for each in sorted(package["hashes"])]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
        "properties": marker + files,
    }


def main() -> None:
    """Print the document of this checkout."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (_ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
    json.dump(bill_of_materials(lock, project), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
