# SPDX-License-Identifier: Apache-2.0
"""Runs the real kubectl apart from the user's own settings and cache."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.controlplane.errors import KubectlFailedError

__all__ = ["Kubectl"]


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster: the program, the kubeconfig, and a place for what it has discovered."""

    program: Path
    kubeconfig: Path
    cache: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        check: bool = True,
        timeout_s: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command.

        Raises:
            KubectlFailedError: it took too long, or ``check`` is set and the exit code is not 0.
        """
        command = " ".join(["kubectl", *map(str, arguments)])
        try:
            result = subprocess.run(
                [self.program, *arguments],
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                check=False,
                env={
                    **os.environ,
                    "KUBECONFIG": str(self.kubeconfig),
                    "KUBECACHEDIR": str(self.cache),
                    "KUBECTL_KUBERC": "false",
                    **self.environ,
                    **(environ or {}),
                },
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlFailedError(f"`{command}` took longer than {timeout_s:g} s") from error
        if check and result.returncode != 0:
            raise KubectlFailedError(
                f"`{command}` ended with exit code {result.returncode}:\n{result.stderr or result.stdout}"
            )
        return result
