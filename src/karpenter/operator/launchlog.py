# SPDX-License-Identifier: Apache-2.0
"""What the log says when a launch needs something new: Kubernetes' version, the image, the launch template.

Karpenter's lines, in its order, when they first matter: people read from them what a node will be made of. Each
version and image is told once, each template whenever it is made. What was looked up before a launch is not told.
"""

from __future__ import annotations

from collections.abc import Callable

from karpenter.cloud.aws.launchtemplates import LaunchSpec
from karpenter.observe import Log

__all__ = ["LaunchLog"]


class LaunchLog:
    """Tells of each launch template that was made for a launch.

    Args:
        log: Where to.
        version: The Kubernetes version that images are chosen for.
        parameter_of: Gives the SSM parameter that named an image, or nothing.
    """

    def __init__(self, log: Log, version: str, parameter_of: Callable[[str], str]) -> None:
        self._log = log
        self._version = version
        self._parameter_of = parameter_of
        self._told: set[str] = set()

    def __call__(self, name: str, spec: LaunchSpec) -> None:
        """Tells of one template, and of what is in it for the first time."""
        if self._version not in self._told:
            self._told.add(self._version)
            self._log.info("discovered kubernetes version", version=self._version)
        if spec.image_id not in self._told:
            self._told.add(spec.image_id)
            self._log.info("discovered ami", ami=spec.image_id, query=self._parameter_of(spec.image_id))
        self._log.info("created launch template", ami=spec.image_id, **{"launch-template-name": name})
