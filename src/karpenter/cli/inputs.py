# SPDX-License-Identifier: Apache-2.0
"""Manifests from files, directories and standard input.

A directory gives its ``*.yaml``, ``*.yml`` and ``*.json`` files in the order of their names, so that the same
directory always reads the same; those below it only if asked. What cannot be read is an error that names the
file; an input without a single object is one too, because it is never what was meant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from karpenter.api.manifests import Manifest, ManifestError, iter_manifests
from karpenter.cli.main import InputError

__all__ = ["read_objects"]

_SUFFIXES = {".yaml", ".yml", ".json"}


def read_objects(
    sources: Sequence[str],
    *,
    recursive: bool = False,
    tell: Callable[[str, int], None] = lambda _name, _count: None,
) -> list[Manifest]:
    """Returns the objects of all sources in order; ``-`` is standard input.

    Args:
        sources: Files and directories.
        recursive: Whether the directories below a directory are read too.
        tell: Is told which file is being read, and how many objects there are so far.

    Raises:
        InputError: A source cannot be read, or there is no object in any.
    """
    objects: list[Manifest] = []
    for source in sources:
        for name, text in _texts(source, recursive=recursive):
            try:
                for manifest in iter_manifests(text, name):
                    tell(name, len(objects))
                    objects.append(manifest)
            except ManifestError as error:
                raise InputError(error.message, hint=error.hint) from error
    if not objects:
        raise InputError(
            f"no objects in {', '.join(sources)}",
            hint="give files with Kubernetes manifests; --recursive reads the directories below as well",
        )
    return objects


def _texts(source: str, *, recursive: bool) -> Iterator[tuple[str, bytes]]:
    if source == "-":
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(source)
    try:
        for file in _files(path, recursive=recursive) if path.is_dir() else [path]:
            yield str(file), file.read_bytes()
    except OSError as error:
        name = error.filename or source
        raise InputError(f"cannot read {name}: {error.strerror}", hint=_advice(error)) from error


def _files(directory: Path, *, recursive: bool) -> list[Path]:
    found = []
    for here, below, names in os.walk(directory, onerror=_raise):
        below[:] = sorted(below) if recursive else []
        found += [Path(here, name) for name in sorted(names) if Path(name).suffix.lower() in _SUFFIXES]
    return found


def _raise(error: OSError) -> None:
    raise error


def _advice(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "check the name; '-' reads standard input"
    return "check who may read it" if isinstance(error, PermissionError) else ""
