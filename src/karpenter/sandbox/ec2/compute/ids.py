# SPDX-License-Identifier: Apache-2.0
"""Ids as EC2 gives them: a prefix and seventeen hexadecimal digits, the same in every run with the same seed."""

from __future__ import annotations

import hashlib
import uuid

__all__ = ["Ids", "fraction"]


class Ids:
    """Gives out ids; two runs with the same seed that create the same things in the same order get the same ids."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.count = 0

    def next(self, prefix: str) -> str:
        """Gives a fresh id such as ``i-0a1b2c3d4e5f60718``."""
        return f"{prefix}-0{self._digest(prefix)[:16]}"

    def next_uuid(self) -> str:
        """Gives a fresh id in the form of a UUID, as fleets have."""
        return str(uuid.UUID(self._digest("uuid")[:32]))

    def _digest(self, kind: str) -> str:
        self.count += 1
        return hashlib.sha256(f"{self._seed}:{kind}:{self.count}".encode()).hexdigest()


def fraction(*parts: object) -> float:
    """Gives a number from 0 up to 1 that depends on the parts alone and looks like chance."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64
