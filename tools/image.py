# SPDX-License-Identifier: Apache-2.0
"""Builds the controller's image from bases that are pinned by digest: `make release-image BUILD=... RUN=...`.

A tag can be moved to other bytes; a digest cannot. So an image for others is built only from bases with a digest, and
the two bases must carry the same Python, because packages are compiled for it. What was used stands in the image's
labels.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["docker_command", "main"]

_PINNED = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_LABEL = "org.opencontainers.image.base"


def docker_command(build: str, run: str, tag: str) -> list[str]:
    """Return the command that builds the image.

    Raises:
        ValueError: A base has no digest.
    """
    for name, base in (("BUILD", build), ("RUN", run)):
        if not _PINNED.fullmatch(base):
            raise ValueError(f"{name}={base}: not pinned by digest (IMAGE:TAG@sha256:64 hexadecimal digits)")
    digest = run.partition("@")[2]
    return [
        *("docker", "build", "--pull"),
        *("--build-arg", f"BUILD={build}", "--build-arg", f"RUN={run}"),
        *("--label", f"{_LABEL}.name={run.partition('@')[0]}", "--label", f"{_LABEL}.digest={digest}"),
        *("--tag", tag, "."),
    ]


def main(arguments: Sequence[str]) -> int:
    """Build the image, or say why not."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.add_argument("--build", default="", help="the base that packages are installed in")
    parser.add_argument("--run", default="", help="the base that the controller runs in")
    parser.add_argument("--tag", default="karpenter-python:release")
    wanted = parser.parse_args(arguments)
    try:
        command = docker_command(wanted.build, wanted.run, wanted.tag)
    except ValueError as problem:
        sys.stderr.write(f"error: {problem}\n")
        sys.stderr.write("hint:  docker buildx imagetools inspect IMAGE:TAG shows the digest of a tag\n")
        return 2
    return subprocess.run(command, check=False).returncode  # noqa: S603 - docker with arguments that were checked


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
