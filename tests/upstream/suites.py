# SPDX-License-Identifier: Apache-2.0
"""The suites of the Go project that can run against a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.errors import KarpenterError

__all__ = ["CORE", "PROVIDER", "QUICK", "SUITES", "Suite", "chosen"]

PROVIDER: Final = "github.com/aws/karpenter-provider-aws"
CORE: Final = "sigs.k8s.io/karpenter"


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: a package of Ginkgo specs in one of the two modules."""

    name: str
    module: str = PROVIDER

    @property
    def package(self) -> str:
        """The package's path inside its module."""
        return f"test/suites/{self.name}"


SUITES: Final = (
    *(
        Suite(name)
        for name in (
            "nodeclaim",
            "interruption",
            "scheduling-strict",
            "scheduling-besteffort",
            "consolidation",
            "drift",
            "integration",
            "storage",
            "ami",
            "ipv6",
            "localzone",
            "scale",
        )
    ),
    *(Suite(name, CORE) for name in ("regression", "performance", "dra")),
)

# Takes a few minutes in all; runs in continuous integration.
QUICK: Final = ("nodeclaim", "interruption")


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
