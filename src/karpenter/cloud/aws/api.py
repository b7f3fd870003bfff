# SPDX-License-Identifier: Apache-2.0
"""The one seam to AWS: a call by service, operation and parameters, and the pages of a listing.

Everything else in ``cloud.aws`` takes an ``Aws`` and never sees boto. Only calls of the table ``CALLS`` go through.
``BotoAws`` runs boto3 in small thread pools, one per service for questions and one for changes, so that a slow service
holds up no other and slow questions hold up no change. It keeps to our own request limits, retries throttles, AWS' own
failures and broken connections until a deadline (a call that changes something only if it may be sent twice), asks the
fence right before each changing call goes out, and turns whatever boto raises into an ``AwsError`` (AWS answered) or an
``AwsUnreachableError`` (the outcome is unknown, or nothing was sent).

Endpoints and credentials come from where boto3 finds them: AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_<SERVICE>, profiles, web
identity; the region is that of ``cloud.aws.region``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol

import boto3
import botocore.config
import botocore.exceptions
from botocore import xform_name

from karpenter.cloud.aws import codes
from karpenter.cloud.aws.calls import CALLS, Call, Limit, Repeat
from karpenter.cloud.aws.descriptions import described_session
from karpenter.cloud.aws.ratelimit import Bucket, buckets
from karpenter.cloud.aws.region import configured_region
from karpenter.cloud.aws.threads import Threads
from karpenter.errors import KarpenterError
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock, SystemClock

__all__ = [
    "CALLS",
    "Aws",
    "AwsError",
    "AwsUnreachableError",
    "BotoAws",
    "CallRecord",
    "follow_pages",
]

_MAX_WORKERS: Final[Mapping[str, int]] = {"ec2": 32}
_FEW_WORKERS: Final = 6
_CONNECT_TIMEOUT_S: Final = 5
# Longer than the longest wait that we ask for (20 s for queue messages) and than a large launch takes.
_READ_TIMEOUT_S: Final = 60
_DEADLINE_S: Final = 120.0
_BACKOFF: Final = BackoffPolicy(base_s=0.25, cap_s=8.0, jitter=0.5)


class AwsError(KarpenterError):
    """AWS answered a call with an error."""

    def __init__(
        self,
        service: str,
        operation: str,
        *,
        code: str,
        text: str = "",
        status: int = 400,
        request_id: str = "",
    ) -> None:
        self.cause = codes.classify(code, text)
        super().__init__(f"{service} {operation}: {code}: {text}", hint=self.cause.hint)
        self.service = service
        self.operation = operation
        self.code = code
        self.text = text
        self.status = status
        self.request_id = request_id

    @property
    def is_refusal(self) -> bool:
        """Whether AWS will give the same answer again: it is neither busy nor in trouble itself."""
        return self.status < 500 and self.cause.kind not in {codes.Kind.THROTTLE, codes.Kind.INTERNAL}


class AwsUnreachableError(KarpenterError):
    """A call got no answer: no endpoint, no connection, no time left, or no credentials to sign it with.

    ``may_have_happened`` tells that a changing call went out and its outcome is not known.
    """

    def __init__(
        self, service: str, operation: str, problem: str, *, hint: str = "", may_have_happened: bool = False
    ) -> None:
        super().__init__(f"{service} {operation}: {problem}", hint=hint)
        self.service = service
        self.operation = operation
        self.may_have_happened = may_have_happened


class Aws(Protocol):
    """AWS as the rest of the room sees it."""

    @property
    def region(self) -> str:
        """The region that calls go to."""
        ...

    async def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        """Make one call, e.g. ``call("ec2", "CreateFleet", ...)``, with the parameter names of boto3.

        Raises:
            AwsError: AWS answered with an error.
            AwsUnreachableError: There was no answer.
        """
        ...

    def pages(self, service: str, operation: str, /, **parameters: Any) -> AsyncIterator[dict[str, Any]]:
        """Make a call and follow its pages; raises what ``call`` raises."""
        ...


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One request that went out, for metrics and logs; an empty code is success."""

    service: str
    operation: str
    seconds: float
    code: str
    attempt: int


async def follow_pages(
    call: Callable[..., Any], service: str, operation: str, parameters: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """Yield every page of a listing, whatever its service calls the token of the next one."""
    wanted = dict(parameters)
    while True:
        page = await call(service, operation, **wanted)
        yield page
        for token in ("NextToken", "nextToken"):
            if page.get(token):
                wanted[token] = page[token]
                break
        else:
            if not page.get("IsTruncated"):
                return
            wanted["Marker"] = page["Marker"]


class BotoAws:
    """AWS by boto3."""

    def __init__(
        self,
        region: str = "",
        *,
        clock: Clock | None = None,
        limits: Mapping[Limit, Bucket] | None = None,
        deadline_s: float = _DEADLINE_S,
        backoff: BackoffPolicy = _BACKOFF,
        before_mutation: Callable[[], None] = lambda: None,
        on_call: Callable[[CallRecord], None] = lambda _: None,
    ) -> None:
        """Makes a client that connects to nothing yet.

        Args:
            region: The region; by default the configured one. ``find_region`` also asks this instance for its region.
            clock: Where time and waiting come from.
            limits: Request limits; by default a little below the published ones.
            deadline_s: How long a call is tried, from when it first goes out.
            backoff: The delays between tries; its seed settles the jitter.
            before_mutation: Is called, in a worker thread, right before each changing call; raises to stop it.
            on_call: Is told of each request.

        Raises:
            AwsUnreachableError: No region is configured.
        """
        self._clock = clock or SystemClock()
        self._region = configured_region(region)
        if not self._region:
            raise AwsUnreachableError(
                "aws",
                "connect",
                "no region is configured and the instance metadata service (IMDS) names none",
                hint="set AWS_REGION, or let the pod reach IMDS (a hop limit of 2 or more, or hostNetwork)",
            )
        self._session = boto3.session.Session(botocore_session=described_session(), region_name=self._region)
        self._limits = limits if limits is not None else buckets(self._clock)
        self._deadline_s = deadline_s
        self._backoff = backoff
        self._before_mutation = before_mutation
        self._on_call = on_call
        self._pools: dict[str, Threads] = {}
        self._clients: dict[str, Any] = {}
        # boto3 sessions make clients one at a time; made clients may be shared by threads.
        self._making = threading.Lock()
        self._calls = 0

    @property
    def region(self) -> str:
        """The region that calls go to."""
        return self._region

    async def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        """Make one call, again where that is safe and useful, until the deadline.

        Raises:
            AwsError: AWS answered with an error.
            AwsUnreachableError: There was no answer.
        """
        known = CALLS.get((service, operation))
        if known is None:
            raise ValueError(f"{service} {operation} is not in the table of calls: add it to cloud.aws.calls")
        self._calls += 1
        key = self._calls
        give_up_at: float | None = None
        attempt = 0
        if instances := _instances(known, parameters):
            await self._limits[Limit.INSTANCES].take(instances)
        while True:
            await self._limits[known.limit].take()
            attempt += 1
            began = self._clock.monotonic()
            give_up_at = began + self._deadline_s if give_up_at is None else give_up_at
            try:
                answer = await self._send(known, parameters)
            except (AwsError, AwsUnreachableError) as error:
                self._note(known, began, error, attempt)
                delay_s = self._backoff.delay_s(attempt, key)
                late = self._clock.monotonic() + delay_s >= give_up_at
                if late or not _may_repeat(known, parameters, error):
                    raise
                await self._clock.sleep(delay_s)
            else:
                self._note(known, began, None, attempt)
                return answer

    def pages(self, service: str, operation: str, /, **parameters: Any) -> AsyncIterator[dict[str, Any]]:
        """Make a call and follow its pages; raises what ``call`` raises."""
        return follow_pages(self.call, service, operation, parameters)

    def close(self) -> None:
        """Let go of threads and connections; calls that are under way end by themselves."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def _note(
        self, known: Call, began: float, error: AwsError | AwsUnreachableError | None, attempt: int
    ) -> None:
        code = "" if error is None else error.code if isinstance(error, AwsError) else "Unreachable"
        if codes.is_throttle(code):
            self._limits[known.limit].refused()
        self._on_call(
            CallRecord(known.service, known.operation, self._clock.monotonic() - began, code, attempt)
        )

    async def _send(self, known: Call, parameters: Mapping[str, Any]) -> dict[str, Any]:
        # Changes have threads of their own: questions that are answered late must not keep launches waiting in line.
        name = f"aws-{known.service}{'-changes' if known.mutating else ''}"
        pool = self._pools.get(name)
        if pool is None:
            pool = Threads(_MAX_WORKERS.get(known.service, _FEW_WORKERS), name)
            self._pools[name] = pool
        return await asyncio.get_running_loop().run_in_executor(pool, self._send_now, known, parameters)

    def _send_now(self, known: Call, parameters: Mapping[str, Any]) -> dict[str, Any]:
        changing = known.mutating and not parameters.get("DryRun")
        try:
            method = getattr(self._client(known.service), xform_name(known.operation))
            if changing:
                self._before_mutation()
            answer: dict[str, Any] = method(**parameters)
        except botocore.exceptions.ClientError as error:
            raise _answered(known, error) from error
        except botocore.exceptions.ParamValidationError as error:
            raise AwsError(
                known.service, known.operation, code=codes.PARAMETERS_REFUSED, text=str(error), status=0
            ) from error
        except botocore.exceptions.BotoCoreError as error:
            raise _unanswered(known, error, self._region, changing=changing) from error
        answer.pop("ResponseMetadata", None)
        return answer

    def _client(self, service: str) -> Any:
        with self._making:
            client = self._clients.get(service)
            if client is None:
                client = self._session.client(
                    service,
                    region_name=_region_of(service, self._region),
                    config=botocore.config.Config(
                        connect_timeout=_CONNECT_TIMEOUT_S,
                        read_timeout=_READ_TIMEOUT_S,
                        max_pool_connections=_MAX_WORKERS.get(service, _FEW_WORKERS),
                        # How often and when a call is repeated is decided above, with the limits in view.
                        retries={"mode": "standard", "total_max_attempts": 1},
                        user_agent_extra=f"karpenter.sh-{_version()}",
                        tcp_keepalive=True,
                    ),
                )
                self._clients[service] = client
            return client


def _version() -> str:
    try:
        return version("karpenter")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def _region_of(service: str, region: str) -> str:
    """Return where a service answers for a region; the price list answers in few of them."""
    if service != "pricing":
        return region
    for prefix, home in (("ap-", "ap-south-1"), ("eu-", "eu-central-1"), ("cn-", "cn-northwest-1")):
        if region.startswith(prefix):
            return home
    return "us-east-1"


def _instances(known: Call, parameters: Mapping[str, Any]) -> int:
    """Return how many instances a call asks for."""
    if known.operation != "CreateFleet" or parameters.get("DryRun"):
        return 0
    return int(parameters.get("TargetCapacitySpecification", {}).get("TotalTargetCapacity", 0))


def _may_repeat(known: Call, parameters: Mapping[str, Any], error: AwsError | AwsUnreachableError) -> bool:
    if isinstance(error, AwsError):
        if error.cause.kind is codes.Kind.THROTTLE:
            return True  # refused before anything was done
        if error.status < 500:
            return False
    elif not isinstance(error.__cause__, _CONNECTION_ERRORS):
        return False
    return known.repeat is Repeat.SAFE or (known.repeat is Repeat.TOKEN and "ClientToken" in parameters)


_CONNECTION_ERRORS: Final = (botocore.exceptions.HTTPClientError, botocore.exceptions.ResponseStreamingError)


def _answered(known: Call, error: botocore.exceptions.ClientError) -> AwsError:
    body = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    return AwsError(
        known.service,
        known.operation,
        code=str(body.get("Code", "Unknown")),
        text=str(body.get("Message", "")),
        status=int(metadata.get("HTTPStatusCode", 0)),
        request_id=str(metadata.get("RequestId", "")),
    )


def _unanswered(
    known: Call, error: botocore.exceptions.BotoCoreError, region: str, *, changing: bool
) -> AwsUnreachableError:
    sent = isinstance(error, _CONNECTION_ERRORS) and not isinstance(
        error, (botocore.exceptions.EndpointConnectionError, botocore.exceptions.ConnectTimeoutError)
    )
    return AwsUnreachableError(
        known.service,
        known.operation,
        str(error),
        hint=_unreachable_hint(error, known.service, region),
        may_have_happened=changing and sent,
    )


def _unreachable_hint(error: botocore.exceptions.BotoCoreError, service: str, region: str) -> str:
    missing = (
        botocore.exceptions.NoCredentialsError,
        botocore.exceptions.PartialCredentialsError,
        botocore.exceptions.CredentialRetrievalError,
        botocore.exceptions.TokenRetrievalError,
        botocore.exceptions.NoAuthTokenError,
        botocore.exceptions.ProfileNotFound,
    )
    if isinstance(error, missing):
        return (
            "give the controller credentials: EKS Pod Identity, an IAM role for its service account,"
            " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if isinstance(error, (*_CONNECTION_ERRORS, botocore.exceptions.ConnectionError)):
        return (
            f"check that {service} can be reached in region {region}: a region that does not exist,"
            " AWS_ENDPOINT_URL, a missing VPC endpoint or a proxy are the usual causes"
        )
    return f"check the AWS configuration of this process (region {region}, profile, endpoint)"
