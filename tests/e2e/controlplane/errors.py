# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the control plane for tests, one class for each thing a person would do about it.

::

    ControlPlaneError
      BinariesMissingError     nothing to run: build it, install Go, or mend KUBEBUILDER_ASSETS
      BuildFailedError         Go was there and could not build
      ComponentFailedError     a component ended, or was not ready in time; carries the end of its log
      KubectlFailedError       kubectl ended with an exit code other than 0
"""

from __future__ import annotations

from karpenter.errors import KarpenterError

__all__ = [
    "BinariesMissingError",
    "BuildFailedError",
    "ComponentFailedError",
    "ControlPlaneError",
    "KubectlFailedError",
    "described",
]


class ControlPlaneError(KarpenterError):
    """The control plane for tests cannot be had, started or used."""

    def __str__(self) -> str:
        """Include the hint, because test reports print nothing but this text."""
        return f"{self.message}\nhint:  {self.hint}" if self.hint else self.message


class BinariesMissingError(ControlPlaneError):
    """One or more of the programs are not there."""


class BuildFailedError(ControlPlaneError):
    """Go could not build the programs."""


class ComponentFailedError(ControlPlaneError):
    """A component ended by itself, or was not ready in time."""


class KubectlFailedError(ControlPlaneError):
    """A kubectl command ended with an exit code other than 0, or took too long."""


def described(error: KarpenterError) -> str:
    """Return the lines that a person reads on a terminal."""
    return f"error: {error.message}" + (f"\nhint:  {error.hint}" if error.hint else "")
