# SPDX-License-Identifier: Apache-2.0
"""ClientToken: the same request told twice is done once.

A token remembers, per operation and for its life time, what was asked and what was answered. The same token with
the same parameters gives the same answer and changes nothing; with other parameters it is refused with
IdempotentParameterMismatch. A request that was refused leaves no trace. What a token gives when all instances of
its answer have died since is a dial (``Settings.replay``), because AWS does not promise it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Remembered", "Tokens"]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a token stands for."""

    digest: str
    answer: Mapping[str, Any]
    expires: datetime


class Tokens:
    """The tokens seen, by operation and token."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Remembered] = {}

    def __len__(self) -> int:
        return len(self._known)

    def once(
        self,
        operation: str,
        params: Params,
        now: datetime,
        lifetime_s: float,
        do: Callable[[], Mapping[str, Any]],
        usable: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    ) -> Mapping[str, Any]:
        """Answers from memory if this token was seen, else does the work and remembers its answer.

        Args:
            operation: The action; tokens of different actions do not meet.
            params: The call's parameters; without ``ClientToken`` the work is simply done.
            now: The model's time.
            lifetime_s: How long a new token is remembered.
            do: The work.
            usable: Says of a remembered answer whether it may be given again, and of a new one whether to keep it.

        Raises:
            ModelError: The token was used with other parameters.
        """
        token = params.get("ClientToken")
        if not token:
            return do()
        digest = _digest(params)
        known = self._known.get((operation, token))
        if known and known.expires > now:
            if known.digest != digest:
                raise ModelError(
                    "IdempotentParameterMismatch",
                    "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
                )
            if usable(known.answer):
                return known.answer
        answer = do()
        self._forget_expired(now)
        if usable(answer):
            self._known[operation, token] = Remembered(digest, answer, now + timedelta(seconds=lifetime_s))
        return answer

    def _forget_expired(self, now: datetime) -> None:
        # Tokens are kept in the order of their making, so the old ones are in front; a life time that was
        # changed on the way only delays forgetting.
        for key in list(islice(self._known, 100)):
            if self._known[key].expires > now:
                break
            del self._known[key]


def _digest(params: Params) -> str:
    text = json.dumps(
        {key: value for key, value in params.items() if key != "DryRun"}, sort_keys=True, default=str
    )
    return hashlib.sha256(text.encode()).hexdigest()
