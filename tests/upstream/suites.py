# SPDX-License-Identifier: Apache-2.0
"""The suites of the Go project that can run against a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.errors import KarpenterError

__all__ = ["CORE", "PROVIDER", "SUITES", "Suite", "chosen"]

PROVIDER: Final = "github.com/aws/karpenter-provider-aws"
CORE: Final = "sigs.k8s.io/karpenter"


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: a package of Ginkgo specs in one of the two modules.

    Attributes:
        name: Name of the package.
        module: The Go module that it is part of.
        wait_s: How long its specs wait for something by default.
        limit_s: After how long a spec is ended.
        min_values_policy: Setting of the controller that its specs begin with. They would set it themselves, which
            starts the controller anew twice a spec.
        ip_family: Of the cluster that its specs expect.
        local_zone: Whether they expect a subnet in a Local Zone.
    """

    name: str
    module: str = PROVIDER
    wait_s: float = 120.0
    limit_s: float = 600.0
    min_values_policy: str = "Strict"
    ip_family: str = "ipv4"
    local_zone: bool = False

    @property
    def needs(self) -> tuple[str, str, bool]:
        """What a plane must be like; suites with the same needs share planes."""
        return self.min_values_policy, self.ip_family, self.local_zone

    @property
    def package(self) -> str:
        """The package's path inside its module."""
        return f"test/suites/{self.name}"


# Hundreds of nodes: the suites measure how long that takes, and wait accordingly.
_LARGE_WAIT_S: Final = 900.0
_LARGE_LIMIT_S: Final = 3600.0

SUITES: Final = (
    Suite("nodeclaim"),
    # Two minutes of a failed status check and a minute between two looks pass by the controller's clock.
    Suite("interruption", wait_s=300.0),
    Suite("scheduling-strict"),
    Suite("scheduling-besteffort", min_values_policy="BestEffort"),
    *(Suite(name) for name in ("consolidation", "drift", "integration", "storage", "ami")),
    Suite("ipv6", ip_family="ipv6"),
    Suite("localzone", local_zone=True),
    # Some of its specs wait for nodes to expire, others a quarter of an hour for a controller to give up.
    Suite("regression", CORE, wait_s=300.0, limit_s=1500.0),
    Suite("dra", CORE),
    Suite("scale", wait_s=_LARGE_WAIT_S, limit_s=_LARGE_LIMIT_S),
    Suite("performance", CORE, wait_s=_LARGE_WAIT_S, limit_s=_LARGE_LIMIT_S),
)


def chosen(names: Sequence[str]) -> tuple[Suite, ...]:
    """Return the suites of these names, all of them where no name is given.

    Raises:
        KarpenterError: There is no suite of that name.
    """
    known = {suite.name: suite for suite in SUITES}
    for name in names:
        if name not in known:
            raise KarpenterError(
                f"there is no suite called {name}", hint=f"the suites are {', '.join(sorted(known))}"
            )
    return tuple(known[name] for name in names) or SUITES
