# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from typing import Any
from urllib.parse import parse_qs

import botocore.exceptions
import pytest

from karpenter.cloud.aws import api
from karpenter.cloud.aws.api import AwsError, AwsUnreachableError, BotoAws, CallRecord
from karpenter.cloud.aws.calls import Limit
from karpenter.cloud.aws.codes import PARAMETERS_REFUSED, Kind
from karpenter.cloud.aws.ratelimit import Bucket
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import SystemClock
from tests.unit.cloud.aws.fakes import FakeAws

_HURRY = BackoffPolicy(base_s=0.01, cap_s=0.02)


def _error(code: str, message: str = "no") -> str:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>r-1</RequestID></Response>"
    )


def _done(name: str, inner: str = "") -> str:
    return f'<{name}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">{inner}</{name}Response>'


class Endpoint:
    """Answers one request after the other from a list; None breaks the connection."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str] | None] = []
        self.requests: list[dict[str, str]] = []
        self.agents: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.requests.append({key: value[0] for key, value in parse_qs(body).items()})
                endpoint.agents.append(self.headers["User-Agent"])
                answer = endpoint.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1].encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    made = Endpoint()
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": made.url,
        "AWS_REGION": "us-west-2",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


async def test_a_call_is_signed_sent_and_answered_without_botos_own_metadata(endpoint: Endpoint) -> None:
    endpoint.answers = [(200, _done("DescribeSubnets", "<subnetSet/>"))]
    records: list[CallRecord] = []
    aws = BotoAws(on_call=records.append)

    answer = await aws.call("ec2", "DescribeSubnets")
    aws.close()

    assert answer == {"Subnets": []}
    assert endpoint.requests[0]["Action"] == "DescribeSubnets"
    assert "karpenter.sh-" in endpoint.agents[0]
    assert [(each.operation, each.code, each.attempt) for each in records] == [("DescribeSubnets", "", 1)]
    assert aws.region == "us-west-2"


async def test_a_call_that_is_not_in_the_table_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError, match="not in the table of calls"):
        await BotoAws().call("ec2", "StopInstances")

    assert endpoint.requests == []


async def test_throttles_and_failures_are_retried_and_throttles_slow_us_down(endpoint: Endpoint) -> None:
    endpoint.answers = [
        (503, _error("RequestLimitExceeded")),
        (500, _error("InternalError")),
        None,
        (200, _done("DescribeSubnets", "<subnetSet/>")),
    ]
    bucket = Bucket(SystemClock(), rate_per_s=1000, burst=100)
    records: list[CallRecord] = []
    aws = BotoAws(backoff=_HURRY, limits={Limit.READ: bucket}, on_call=records.append)

    await aws.call("ec2", "DescribeSubnets")
    aws.close()

    assert [each.code for each in records] == ["RequestLimitExceeded", "InternalError", "Unreachable", ""]
    assert bucket.rate_per_s < 600


async def test_an_answer_that_says_no_is_not_asked_for_again(endpoint: Endpoint) -> None:
    endpoint.answers = [(400, _error("InvalidSubnetID.NotFound", "no such subnet"))]
    aws = BotoAws(backoff=_HURRY)

    with pytest.raises(AwsError) as refused:
        await aws.call("ec2", "DescribeSubnets")
    aws.close()

    error = refused.value
    assert (error.service, error.operation, error.code) == (
        "ec2",
        "DescribeSubnets",
        "InvalidSubnetID.NotFound",
    )
    assert (error.text, error.status, error.request_id) == ("no such subnet", 400, "r-1")
    assert error.cause.kind is Kind.NOT_FOUND
    assert str(error) == "ec2 DescribeSubnets: InvalidSubnetID.NotFound: no such subnet"


async def test_the_deadline_ends_the_retries(endpoint: Endpoint) -> None:
    warm = (200, _done("DescribeSubnets", "<subnetSet/>"))
    endpoint.answers = [warm, *[(503, _error("RequestLimitExceeded"))] * 100]
    aws = BotoAws(backoff=BackoffPolicy(base_s=0.3, cap_s=0.3), deadline_s=1.5)
    await aws.call("ec2", "DescribeSubnets")  # making the client takes longer than any answer here
    started = time.monotonic()

    with pytest.raises(AwsError, match="RequestLimitExceeded"):
        await aws.call("ec2", "DescribeSubnets")
    aws.close()

    assert time.monotonic() - started < 10
    assert 2 < len(endpoint.requests) < 8


async def test_a_launch_of_unknown_outcome_is_repeated_only_under_its_token(endpoint: Endpoint) -> None:
    fleet = {"LaunchTemplateConfigs": [], "TargetCapacitySpecification": {"TotalTargetCapacity": 1}}
    aws = BotoAws(backoff=_HURRY)

    endpoint.answers = [None]
    with pytest.raises(AwsUnreachableError) as unknown:
        await aws.call("ec2", "CreateFleet", **fleet)
    endpoint.answers = [None, (200, _done("CreateFleet", "<fleetId>fleet-1</fleetId>"))]
    answer = await aws.call("ec2", "CreateFleet", ClientToken="t", **fleet)
    aws.close()

    assert unknown.value.may_have_happened
    assert "AWS_ENDPOINT_URL" in unknown.value.hint
    assert answer["FleetId"] == "fleet-1"
    assert [each.get("ClientToken") for each in endpoint.requests[1:]] == ["t", "t"]


async def test_the_fence_stops_changing_calls_and_lets_reads_and_dry_runs_pass(endpoint: Endpoint) -> None:
    class LeaseLostError(Exception):
        pass

    def lost() -> None:
        raise LeaseLostError

    endpoint.answers = [
        (200, _done("DescribeSubnets", "<subnetSet/>")),
        (412, _error("DryRunOperation")),
    ]
    aws = BotoAws(before_mutation=lost)

    await aws.call("ec2", "DescribeSubnets")
    with pytest.raises(AwsError, match="DryRunOperation"):
        await aws.call("ec2", "RunInstances", MinCount=1, MaxCount=1, DryRun=True)
    with pytest.raises(LeaseLostError):
        await aws.call("ec2", "TerminateInstances", InstanceIds=["i-1"])
    aws.close()

    assert [each["Action"] for each in endpoint.requests] == ["DescribeSubnets", "RunInstances"]


async def test_a_launch_also_draws_one_token_per_instance(endpoint: Endpoint) -> None:
    endpoint.answers = [(200, _done("CreateFleet")), (412, _error("DryRunOperation"))]
    instances = Bucket(SystemClock(), rate_per_s=0.001, burst=10)
    limits = {Limit.LAUNCH: Bucket(SystemClock(), rate_per_s=100, burst=10), Limit.INSTANCES: instances}
    aws = BotoAws(limits=limits)
    fleet = {"LaunchTemplateConfigs": [], "TargetCapacitySpecification": {"TotalTargetCapacity": 10}}

    await aws.call("ec2", "CreateFleet", **fleet)
    with pytest.raises(AwsError, match="DryRun"):
        await aws.call("ec2", "CreateFleet", DryRun=True, **fleet)
    late = asyncio.create_task(aws.call("ec2", "CreateFleet", **fleet))
    done, _ = await asyncio.wait({late}, timeout=0.1)
    late.cancel()
    aws.close()

    assert not done
    assert len(endpoint.requests) == 2


async def test_parameters_that_boto_refuses_are_an_error_of_the_request(endpoint: Endpoint) -> None:
    with pytest.raises(AwsError) as refused:
        await BotoAws().call("ec2", "TerminateInstances", InstanceIds="i-1")

    assert refused.value.code == PARAMETERS_REFUSED
    assert endpoint.requests == []


async def test_without_credentials_the_hint_says_how_to_give_them(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    aws = BotoAws(backoff=_HURRY)

    with pytest.raises(AwsUnreachableError) as missing:
        await aws.call("ec2", "DescribeSubnets")
    aws.close()

    assert "credentials" in missing.value.hint
    assert not missing.value.may_have_happened
    assert endpoint.requests == []


async def test_an_endpoint_that_nobody_listens_at_is_retried_and_then_named(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:9")
    records: list[CallRecord] = []
    aws = BotoAws(backoff=_HURRY, deadline_s=0.05, on_call=records.append)

    with pytest.raises(AwsUnreachableError) as lost:
        await aws.call("ec2", "TerminateInstances", InstanceIds=["i-1"])
    aws.close()

    assert "127.0.0.1:9" in lost.value.message
    assert "us-west-2" in lost.value.hint
    assert not lost.value.may_have_happened
    assert {each.code for each in records} == {"Unreachable"}
    assert endpoint.requests == []


def test_without_a_region_nothing_is_connected(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint.url
    monkeypatch.delenv("AWS_REGION")

    with pytest.raises(AwsUnreachableError) as missing:
        BotoAws()

    assert missing.value.hint.startswith("set AWS_REGION, or let the pod reach IMDS")


def test_any_other_trouble_of_boto_points_to_the_configuration() -> None:
    hint = api._unreachable_hint(botocore.exceptions.DataNotFoundError(data_path="x"), "ec2", "mars-1")

    assert "mars-1" in hint


@pytest.mark.parametrize(
    ("region", "home"),
    [
        ("us-west-2", "us-east-1"),
        ("ap-northeast-2", "ap-south-1"),
        ("eu-west-1", "eu-central-1"),
        ("cn-north-1", "cn-northwest-1"),
    ],
)
def test_prices_are_asked_for_where_the_price_list_answers(region: str, home: str) -> None:
    assert api._region_of("pricing", region) == home
    assert api._region_of("ec2", region) == region


def test_the_version_is_unknown_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(api, "version", missing)

    assert api._version() == "unknown"


async def test_pages_are_followed_whatever_their_token_is_called() -> None:
    aws = FakeAws(
        {
            "DescribeSubnets": [{"Subnets": [1], "NextToken": "a"}, {"Subnets": [2]}],
            "GetManagedResource": [{"x": 1, "nextToken": "b"}, {"x": 2}],
            "ListInstanceProfiles": [{"IsTruncated": True, "Marker": "m"}, {"IsTruncated": False}],
        }
    )

    subnets = [page["Subnets"] async for page in aws.pages("ec2", "DescribeSubnets", MaxResults=5)]
    shifts = [page["x"] async for page in aws.pages("arc-zonal-shift", "GetManagedResource")]
    profiles = [page async for page in aws.pages("iam", "ListInstanceProfiles")]

    assert (subnets, shifts, len(profiles)) == ([[1], [2]], [1, 2], 2)
    assert aws.named("DescribeSubnets") == [{"MaxResults": 5}, {"MaxResults": 5, "NextToken": "a"}]
    assert aws.named("ListInstanceProfiles")[1] == {"Marker": "m"}


async def test_boto_pages_are_followed_too(endpoint: Endpoint) -> None:
    endpoint.answers = [
        (200, _done("DescribeSubnets", "<subnetSet/><nextToken>n</nextToken>")),
        (200, _done("DescribeSubnets", "<subnetSet/>")),
    ]
    aws = BotoAws()

    pages = [page async for page in aws.pages("ec2", "DescribeSubnets")]
    aws.close()

    assert len(pages) == 2
    assert endpoint.requests[1]["NextToken"] == "n"
