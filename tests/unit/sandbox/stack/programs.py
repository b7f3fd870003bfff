# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of tiny programs, for tests of what starts and ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.lifecycle import Stack
from karpenter.sandbox.stack.pieces import Piece
from karpenter.sandbox.stack.record import Record

__all__ = ["Programs", "programs", "stack", "tiny"]

_ROOT = Path(__file__).resolve().parents[4]
_MODULE = "tests.unit.sandbox.stack.tiny"

Programs = Callable[[Home, Record], list[Piece]]


def tiny(name: str, *words: str, address: str = "", says: str = "", authority: Path | None = None) -> Piece:
    """Give a tiny program that is called so."""
    return Piece(
        name,
        f"a tiny {name}",
        words,
        address=address,
        probe=f"{address}/readyz" if address else "",
        says=says,
        authority=authority,
        environ={"PYTHONPATH": str(_ROOT)},
        module=_MODULE,
    )


def programs(*more: Piece) -> Programs:
    """Give what stands for the API, the model and one that only calls, with more behind them."""

    def made(home: Home, record: Record) -> list[Piece]:
        serve = ("serve", str(record.ports["kube"]), str(home.data))
        return [
            tiny("kube", *serve, address=record.server, authority=home.authority),
            tiny("ec2", "serve", str(record.ports["ec2"]), address=record.ec2),
            tiny("kubelets", "speak", says="at work"),
            *more,
        ]

    return made


@contextmanager
def stack(home: Home, made: Programs | None = None, *, patience_s: float = 90.0) -> Iterator[Stack]:
    """Give a sandbox of tiny programs, none of which outlives the block."""
    found = Stack(home, programs=made or programs(), patience_s=patience_s)
    try:
        yield found
    finally:
        if home.record.exists():
            found.down(keep=False)
