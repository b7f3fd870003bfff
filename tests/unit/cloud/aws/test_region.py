# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from karpenter.cloud.aws.region import configured_region, find_region


@pytest.fixture(autouse=True)
def _no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


@pytest.fixture
def metadata_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve IMDSv2 for an instance in us-west-2b."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer("token")

        def do_GET(self) -> None:
            assert self.headers["X-aws-ec2-metadata-token"] == "token"
            self._answer("us-west-2b")

        def _answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    serving.join()
    server.server_close()


def test_the_caller_counts_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert configured_region() == "eu-central-1"

    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert configured_region() == "eu-west-1"
    assert configured_region("us-east-1") == "us-east-1"


@pytest.mark.usefixtures("metadata_service")
async def test_without_configuration_the_instance_names_its_region() -> None:
    assert configured_region() == ""
    assert await find_region() == "us-west-2"


@pytest.mark.usefixtures("metadata_service")
async def test_the_instance_is_not_asked_where_a_region_is_configured() -> None:
    assert await find_region("eu-west-1") == "eu-west-1"


async def test_outside_ec2_there_is_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    assert await find_region() == ""
