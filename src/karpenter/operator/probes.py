# SPDX-License-Identifier: Apache-2.0
"""Answers who asks whether we live, are ready, and what we count: /healthz, /readyz, /metrics, and profiles on request.

Alive means that the event loop turns; ready that the cluster is known, our kinds are served, and watches speak. A probe
that fails says why in its body. What a person must mend, such as an object that does not decode, is named in the body
of a probe that succeeds: failing would mend nothing, take the metrics away that tell of it, and stop the rollout of a
version that can read it. The two ports are Karpenter's; port 0 takes any free one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

from karpenter.errors import KarpenterError
from karpenter.observe import CONTENT_TYPE, Metrics
from karpenter.operator.profiling import Profiles

__all__ = ["Probes", "ProbesError"]


class ProbesError(KarpenterError):
    """A port that cannot be used."""


class Probes:
    """Two small servers, up inside an ``async with`` block.

    Args:
        metrics: What /metrics shows.
        problem: Why we are not ready; empty if we are.
        warnings: What is named although we are ready.
        before_metrics: Called before each scrape, to fill in what is only counted on demand.
        profiling: Whether profiles are served beside the metrics.
    """

    def __init__(  # noqa: PLR0913 - what two servers show, and where
        self,
        metrics: Metrics,
        *,
        problem: Callable[[], str],
        warnings: Callable[[], Sequence[str]] = tuple,
        before_metrics: Callable[[], Awaitable[None]],
        metrics_port: int,
        health_port: int,
        host: str = "0.0.0.0",  # noqa: S104 - kubelets and Prometheus ask from outside the pod
        profiling: bool = False,
    ) -> None:
        self._metrics = metrics
        self._problem = problem
        self._warnings = warnings
        self._before_metrics = before_metrics
        self._wanted = {"metrics": metrics_port, "health": health_port}
        self._host = host
        self._profiling = profiling
        self._runners: list[web.AppRunner] = []
        self.ports: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        metrics, health = web.Application(), web.Application()
        metrics.router.add_get("/metrics", self._show)
        if self._profiling:
            Profiles().serve(metrics)
        health.router.add_get("/healthz", self._alive)
        health.router.add_get("/readyz", self._ready)
        try:
            await self._serve("metrics", metrics)
            await self._serve("health", health)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _serve(self, name: str, app: web.Application) -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        self._runners.append(runner)
        port = self._wanted[name]
        try:
            await web.TCPSite(runner, self._host, port).start()
        except OSError as error:
            flag = "--metrics-port" if name == "metrics" else "--health-probe-port"
            raise ProbesError(
                f"port {port} cannot be used: {error.strerror}", hint=f"choose another with {flag}, or 0"
            ) from error
        self.ports[name] = int(runner.addresses[0][1])

    async def _stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    async def _show(self, _: web.Request) -> web.Response:
        await self._before_metrics()
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _alive(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        problem = self._problem()
        lines = [problem or "ok", *(f"warning: {each}" for each in self._warnings())]
        return web.Response(text="".join(f"{each}\n" for each in lines), status=503 if problem else 200)
