# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane.certificates import Authority
from tests.e2e.controlplane.connection import Connection
from tests.e2e.controlplane.errors import ComponentFailedError
from tests.e2e.controlplane.processes import ProcessGroup
from tests.e2e.controlplane.startup import Part, Startup, free_port

# A component in miniature: HTTPS on the given port, ready at once, and it echoes who asks.
SERVER = """
import http.server, json, ssl, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        said = {"authorization": self.headers.get("Authorization"), "type": self.headers.get("Content-Type"),
                "body": self.rfile.read(length).decode()}
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())
    do_POST = do_GET

try:
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
except OSError:
    sys.exit("listen: bind: address already in use")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[ProcessGroup]:
    with ProcessGroup(tmp_path) as group:
        yield group


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    authority = Authority("ca")
    authority.issue_server("server", ["127.0.0.1"]).write(tmp_path, "server")
    return authority.key_pair.write(tmp_path, "ca")[0]


def test_a_part_is_up_when_it_answers(group: ProcessGroup, ca_file: Path, tmp_path: Path) -> None:
    [url] = Startup(group, ca_file, timeout_s=15).bring_up(_server(tmp_path))

    assert url.startswith("https://127.0.0.1:")
    assert Connection(url, ca_file).request("GET", "/readyz").is_success


def test_a_part_that_finds_its_port_taken_gets_another(
    group: ProcessGroup, ca_file: Path, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ports = iter([taken.getsockname()[1], free_port()])

        startup = Startup(group, ca_file, timeout_s=15, pick_port=lambda: next(ports))
        [url] = startup.bring_up(_server(tmp_path))

        assert not url.endswith(f":{taken.getsockname()[1]}")
    assert [each.name for each in group.children] == ["server", "server"]


def test_no_port_is_given_to_two_parts(group: ProcessGroup, ca_file: Path) -> None:
    ports = iter([7001, 7001, 7002])
    startup = Startup(group, ca_file, timeout_s=15, pick_port=lambda: next(ports))

    assert [startup.new_port(), startup.new_port()] == [7001, 7002]


def test_a_part_whose_port_is_always_taken_is_an_error(group: ProcessGroup, ca_file: Path) -> None:
    part = _script("echo 'listen: address already in use'; exit 1")

    with pytest.raises(ComponentFailedError, match="part found its port taken 5 times"):
        Startup(group, ca_file, timeout_s=15).bring_up(part)


def test_a_part_that_ends_is_an_error_with_its_log(group: ProcessGroup, ca_file: Path) -> None:
    part = _script("echo 'unknown flag'; exit 2")

    with pytest.raises(ComponentFailedError, match=r"(?s)part ended with exit code 2 .*unknown flag"):
        Startup(group, ca_file, timeout_s=15).bring_up(part)


def test_a_part_that_never_answers_is_an_error_when_the_time_is_over(
    group: ProcessGroup, ca_file: Path
) -> None:
    with pytest.raises(ComponentFailedError, match=r"part was not ready within 0\.2 s"):
        Startup(group, ca_file, timeout_s=0.2).bring_up(_script("sleep 60"))


def test_waiting_for_the_work_of_a_part_ends_with_the_part_or_the_time(
    group: ProcessGroup, ca_file: Path
) -> None:
    startup = Startup(group, ca_file, timeout_s=0.3)
    asleep, ended = group.start("asleep", ["sleep", "60"]), group.start("ended", ["false"])

    startup.wait_until(lambda: True, asleep, "nothing")
    with pytest.raises(ComponentFailedError, match="ended ended with exit code 1 before it worked"):
        startup.wait_until(lambda: False, ended, "it worked")
    with pytest.raises(ComponentFailedError, match=r"asleep had 0\.3 s, and they were over before it worked"):
        startup.wait_until(lambda: False, asleep, "it worked")


def test_a_request_carries_token_and_body_and_returns_refusals(
    group: ProcessGroup, ca_file: Path, tmp_path: Path
) -> None:
    [url] = Startup(group, ca_file, timeout_s=15).bring_up(_server(tmp_path))
    connection = Connection(url, ca_file, token="own")

    refusal = connection.request("POST", "/elsewhere", {"a": 1}, content_type="application/x")

    assert refusal.status == 404
    assert not refusal.is_success
    assert refusal.json() == {"authorization": "Bearer own", "type": "application/x", "body": '{"a": 1}'}
    assert connection.request("GET", "/readyz", token="other").json()["authorization"] == "Bearer other"
    assert connection.request("GET", "/readyz", token="").json()["authorization"] is None


def test_a_server_of_another_authority_is_not_trusted(
    group: ProcessGroup, ca_file: Path, tmp_path: Path
) -> None:
    [url] = Startup(group, ca_file, timeout_s=15).bring_up(_server(tmp_path))
    stranger = tmp_path / "stranger.crt"
    stranger.write_bytes(Authority("stranger").key_pair.certificate)

    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        Connection(url, stranger).request("GET", "/readyz")


def _server(directory: Path, name: str = "server") -> Part:
    files = [str(directory / "server.crt"), str(directory / "server.key")]
    return Part(name, Path(sys.executable), lambda port: ["-c", SERVER, str(port), *files], "/readyz")


def _script(text: str) -> Part:
    return Part("part", Path("/bin/sh"), lambda port: ["-c", text, str(port)], "/readyz")
