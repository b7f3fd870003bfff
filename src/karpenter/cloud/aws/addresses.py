# SPDX-License-Identifier: Apache-2.0
"""Which subnet of each zone a launch goes into: the one with the most free addresses, launches under way counted.

EC2 tells free addresses with some delay, and a burst of launches would all pick the same subnet until then. So each
launch sets aside as many addresses as its smallest node may use, in every subnet that it names; what the launch did
not use is given back, the rest is held until EC2 is next asked.

How many addresses are free only says which subnet is better. So a launch waits two seconds for it and no longer: where
EC2 answers late or not at all, what was known before counts, and a subnet without addresses is found out by the launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.api import Aws, AwsError, AwsUnreachableError
from karpenter.cloud.aws.batching import chunks
from karpenter.cloud.aws.unavailable import SubnetOut, Unavailable
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.kit.lookups import Lookups

__all__ = ["Addresses"]

_FRESH_S: Final = 60.0
_KEPT_S: Final = 24 * 3600.0
_PATIENCE_S: Final = 2.0
_MOST_SUBNETS: Final = 10_000
# How many ids one call takes.
_MAX_IDS: Final = 200


class Addresses:
    """Free addresses per subnet."""

    def __init__(self, aws: Aws, clock: Clock, unavailable: Unavailable) -> None:
        self._aws = aws
        self._unavailable = unavailable
        self._free: TTLCache[str, int] = TTLCache(clock, ttl_s=_KEPT_S, max_size=_MOST_SUBNETS)
        self._fresh: TTLCache[str, bool] = TTLCache(clock, ttl_s=_FRESH_S, max_size=_MOST_SUBNETS)
        self._set_aside: Counter[str] = Counter()
        self._asking: Lookups[tuple[str, ...], None] = Lookups(clock, self._ask)

    async def best_subnets(self, node_class: EC2NodeClass, addresses: int) -> Mapping[str, str]:
        """Return the best subnet of each zone by zone name, with that many addresses set aside in each.

        Subnets that ran out of addresses lately are left out, and so is a zone that has no other.
        """
        await self._learn([subnet.id for subnet in node_class.status.subnets])
        out = {
            each.what.subnet_id for each in self._unavailable.entries() if isinstance(each.what, SubnetOut)
        }
        best: dict[str, str] = {}
        for subnet in sorted(node_class.status.subnets, key=lambda each: (-self.free(each.id), each.id)):
            if subnet.id not in out:
                best.setdefault(subnet.zone, subnet.id)
        self._set_aside.update(dict.fromkeys(best.values(), addresses))
        return dict(sorted(best.items()))

    def give_back(self, subnet_ids: Iterable[str], used: Collection[str], addresses: int) -> None:
        """Return what was set aside in the subnets that a launch named but did not use."""
        for subnet_id in subnet_ids:
            if subnet_id not in used:
                self._set_aside[subnet_id] = max(self._set_aside[subnet_id] - addresses, 0)

    def free(self, subnet_id: str) -> int:
        """Return the free addresses of a subnet, less what launches under way may take; may be negative."""
        return self._free.get(subnet_id, 0) - self._set_aside[subnet_id]

    async def close(self) -> None:
        """Give up on what has not been answered."""
        await self._asking.close()

    async def _learn(self, subnet_ids: list[str]) -> None:
        """Ask for what is not known for sure, and wait for it a moment."""
        unsure = tuple(sorted(each for each in subnet_ids if each not in self._fresh))
        if not unsure:
            return
        try:
            await self._asking.within(unsure, _PATIENCE_S)
        except (AwsError, AwsUnreachableError, TimeoutError):
            return  # counted and told with the call; launches go on

    async def _ask(self, subnet_ids: tuple[str, ...]) -> None:
        for some in chunks(subnet_ids, _MAX_IDS):
            filters: list[dict[str, Any]] = [{"Name": "subnet-id", "Values": list(some)}]
            async for page in self._aws.pages("ec2", "DescribeSubnets", Filters=filters):
                for subnet in page.get("Subnets", ()):
                    # EC2 has counted what was under way before; from here on it is in its number.
                    self._set_aside.pop(subnet["SubnetId"], None)
                    self._free.set(subnet["SubnetId"], int(subnet.get("AvailableIpAddressCount", 0)))
                    self._fresh.set(subnet["SubnetId"], True)
