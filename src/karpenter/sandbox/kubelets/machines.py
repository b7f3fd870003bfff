# SPDX-License-Identifier: Apache-2.0
"""The machines of the EC2 model, asked for over HTTP: short rows of all, and what one of them finds when it boots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import aiohttp
import msgspec

from karpenter.errors import KarpenterError

__all__ = ["Machine", "Machines", "ModelUnreachableError", "Overview", "Row", "Yard"]


_T = TypeVar("_T")


class ModelUnreachableError(KarpenterError):
    """The EC2 model does not answer, or answers something else."""


class Row(msgspec.Struct, frozen=True):
    """A machine in short."""

    id: str
    state: str
    behaviour: str = "joins"


class Overview(msgspec.Struct, frozen=True):
    """All machines at a moment of the model's time."""

    now: datetime
    speed: float
    clusters: tuple[str, ...]
    machines: tuple[Row, ...]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as it finds itself."""

    id: str
    state: str
    instance_type: str
    architecture: str
    region: str
    zone: str
    zone_id: str = ""
    image_name: str = ""
    address: str
    ipv6_address: str = ""
    host_name: str
    user_data: bytes = b""
    running_since: datetime | None = None
    disks: Mapping[str, int] = {}
    root_device: str = ""
    tags: Mapping[str, str] = {}

    @property
    def provider_id(self) -> str:
        """Gives the id by which its Node names it."""
        return f"aws:///{self.zone}/{self.id}"


class Machines(Protocol):
    """Where machines are asked for."""

    async def overview(self) -> Overview:
        """Return a row of every machine."""
        ...

    async def machine(self, machine_id: str) -> Machine | None:
        """Return all of one machine; None if there is none of that id."""
        ...


class _Documents(msgspec.Struct, frozen=True):
    machines: tuple[Machine, ...]


class Yard:
    """Where the machines stand: the model's address."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = f"{url.rstrip('/')}/_model/machines"
        self._session = session

    async def overview(self) -> Overview:
        """Gives a row of every machine.

        Raises:
            ModelUnreachableError: The model does not answer as one.
        """
        return self._decoded(await self._get(()), Overview)

    async def machine(self, machine_id: str) -> Machine | None:
        """Gives all of one machine; None if there is none of that id.

        Raises:
            ModelUnreachableError: The model does not answer as one.
        """
        found = self._decoded(await self._get((("id", machine_id),)), _Documents).machines
        return found[0] if found else None

    async def _get(self, query: Sequence[tuple[str, str]]) -> bytes:
        try:
            async with self._session.get(self._url, params=list(query)) as answer:
                body = await answer.read()
                if answer.status == 200:
                    return body
                problem = f"status {answer.status}"
        except (TimeoutError, aiohttp.ClientError) as refused:
            problem = str(refused) or type(refused).__name__
        raise ModelUnreachableError(
            f"cannot ask the EC2 model at {self._url}: {problem}", hint="start one: karpenter sandbox ec2"
        )

    def _decoded(self, body: bytes, shape: type[_T]) -> _T:
        try:
            return msgspec.json.decode(body, type=shape)
        except msgspec.DecodeError as broken:
            raise ModelUnreachableError(f"{self._url} is not an EC2 model: {broken}") from broken
