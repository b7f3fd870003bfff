# SPDX-License-Identifier: Apache-2.0
"""One call from its HTTP form to its HTTP answer, with all that AWS does around the handler.

The order is fixed: parse; credentials; injected latency and lost requests; throttling; permission; injected error;
handler; lost reply. So a call with bad credentials costs no token, a throttled one is not asked for permission, and
a lost reply has had its effect. What a handler did not foresee is answered as an internal error of the service
and logged with its traceback; the model goes on.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from typing import Any

from karpenter.sandbox.ec2 import services
from karpenter.sandbox.ec2.behaviour.calls import Call
from karpenter.sandbox.ec2.behaviour.throttling import is_mutating
from karpenter.sandbox.ec2.contract import Handler, ModelError, Request, Waiting
from karpenter.sandbox.ec2.front.answers import Answer, refusal, success
from karpenter.sandbox.ec2.front.routing import Arrived, Caller, caller_of, operation_of, parameters_of
from karpenter.sandbox.ec2.front.schema import Operation
from karpenter.sandbox.ec2.front.schema import service as service_named
from karpenter.sandbox.ec2.journal import Journal
from karpenter.sandbox.ec2.world import World

__all__ = ["Dispatcher"]

_log = logging.getLogger(__name__)


class Dispatcher:
    """Answers calls out of one world.

    Args:
        world: What is asked and changed.
        handlers: By service and operation; without them those of all services.
        journal: Where changes are written down, before they are answered.
    """

    def __init__(
        self,
        world: World,
        handlers: Mapping[str, Mapping[str, Handler]] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.world = world
        self._journal = journal
        self._handlers = services.handlers() if handlers is None else handlers

    async def answer(self, arrived: Arrived) -> Answer | None:
        """Answers one HTTP request; None means that the connection has to be cut without an answer."""
        request_id = str(uuid.uuid4())
        caller: Caller | None = None
        try:
            caller = caller_of(arrived, self.world.region)
            operation = operation_of(caller.service, arrived)
        except ModelError as refused:
            return refusal(caller.service if caller else None, refused, request_id)
        call = Call(
            number=0,
            time=self.world.clock.now(),
            service=caller.service.name,
            operation=operation.name,
            parameters={},
            access_key=caller.access_key,
            region=caller.region,
            request_id=request_id,
        )
        self.world.calls.add(call)
        try:
            handler = self._handler(call)
            call.parameters = parameters_of(caller.service, operation, arrived)
        except ModelError as refused:
            self.world.calls.end(call, refused.code, refused.message, 0.0)
            return refusal(caller.service, refused, request_id)
        return await self._perform(arrived, operation, call, handler)

    def _handler(self, call: Call) -> Handler:
        handler = self._handlers.get(call.service, {}).get(call.operation)
        if handler is None:
            text = f"{call.service} {call.operation} exists in AWS and is not modelled"
            raise ModelError("NotImplemented", text, status=501)
        return handler

    async def _perform(
        self, arrived: Arrived, operation: Operation, call: Call, handler: Handler
    ) -> Answer | None:
        world, service, request_id = self.world, service_named(call.service), call.request_id
        started = time.perf_counter()
        outcome, message, lost = "ok", "", False
        answer: Answer | None = None
        try:
            result, lost = await self._result(arrived, call, handler)
            if not lost:
                answer = success(service, operation, result, request_id)
        except ModelError as refused:
            outcome, message = refused.code, refused.message
            answer = refusal(service, refused, request_id)
        except _LostRequestError:
            outcome, lost = "lost request", True
        except Exception as mistake:  # noqa: BLE001 - a defect of one handler must not end the model
            _log.exception("the handler of %s %s failed", service.name, operation.name)
            error = ModelError(
                "InternalError", f"defect of the model: {type(mistake).__name__}: {mistake}", 500
            )
            outcome, message = error.code, error.message
            answer = refusal(service, error, request_id)
        call.lost = lost
        world.calls.end(call, outcome, message, (time.perf_counter() - started) * 1000)
        return answer

    async def _result(self, arrived: Arrived, call: Call, handler: Handler) -> tuple[Mapping[str, Any], bool]:
        world, service, name, parameters = self.world, call.service, call.operation, call.parameters
        world.access.check_credentials(service, name, call.access_key, call.region)
        struck = world.faults.strike(service, name, parameters)
        if struck.latency_s:
            await asyncio.sleep(struck.latency_s)
        if struck.lost == "request":
            raise _LostRequestError
        world.throttle.check(service, name, parameters)
        world.access.check_permission(service, name, call.access_key, parameters)
        refused = world.guard.check(world, service, name, call.access_key, parameters)
        if refused is not None:
            raise world.access.denied(service, refused.action, refused.resource)
        if struck.error is not None:
            raise struck.error
        written = self._journal if call.mutating else None
        at = written.now() if written else 0.0
        world.settle()
        request = Request(
            service, name, call.access_key, call.region, call.request_id, world.clock.now(), world
        )
        try:
            result = handler(request, parameters)
        finally:
            # Refused or not: a refused call may have drawn ids, and those after it depend on that.
            if written:
                written.call(arrived, call, at)
        if not is_mutating(name):
            request.stop_if_dry_run(parameters)
        if isinstance(result, Waiting):
            result = await self._wait(result, arrived)
        return result, struck.lost == "reply"

    async def _wait(self, waiting: Waiting, arrived: Arrived) -> Mapping[str, Any]:
        # A clock that stands still must not keep a caller for ever: then the wait is real seconds.
        speed = self.world.clock.speed or 1.0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + waiting.seconds / speed
        while True:
            woken = asyncio.Event()
            waiting.signal.add(woken.set)
            try:
                async with asyncio.timeout_at(deadline):
                    await woken.wait()
            except TimeoutError:
                return waiting.again(self.world.clock.now()) or waiting.otherwise
            finally:
                waiting.signal.discard(woken.set)
            if arrived.gone():
                # What is handed to nobody must stay for the next who asks.
                return waiting.otherwise
            found = waiting.again(self.world.clock.now())
            if found is not None:
                return found


class _LostRequestError(Exception):
    """An injected fault: the request never arrived."""
