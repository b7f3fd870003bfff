# SPDX-License-Identifier: Apache-2.0
"""The Go Karpenter for AWS at work on the sandbox: its own controller, unchanged, on our API and our EC2 model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.live.gopeer import go_environment
from benchmarks.peers.toolchain import build_peer

from tests.e2e.controlplane import ChildProcess, ProcessGroup
from tests.e2e.controlplane.startup import free_port
from tests.e2e.product import Product, wait_for

__all__ = ["GO_PROVIDER", "GoController", "WithoutController", "build_go_provider", "go_controller"]

GO_PROVIDER = Path(__file__).parents[2] / "e2e" / "provider"
_PACKAGE = "github.com/aws/karpenter-provider-aws/cmd/controller"
_CLUSTER = "sandbox"
# Seconds are enough; a machine that many share may need minutes.
_START_S = 240.0
_GRACE_S = 20.0


def build_go_provider(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """Return the program, built first if it is not in the cache.

    Raises:
        PeerUnavailableError: Go is not installed, or could not build.
    """
    return build_peer(environ, say, GO_PROVIDER, package=_PACKAGE, what="the Go Karpenter for AWS")


class WithoutController(Product):
    """The product with room for another controller in the place of ours."""

    with_controller = False


class GoController:
    """The Go controller beside one product, which can be stopped and started again."""

    def __init__(self, product: Product, program: Path, group: ProcessGroup) -> None:
        self._product = product
        self._program = program
        self._group = group
        self._started = 0
        self.process: ChildProcess | None = None

    def start(self) -> None:
        """Start it and wait until it leads."""
        self._started += 1
        process = self._group.start(
            f"go-controller-{self._started}", [self._program], environ=self._environment()
        )
        self.process = process

        def leads() -> bool:
            assert process.is_running, process.log_tail()
            return process.log_says("Starting workers")

        wait_for(leads, "the Go controller leads", _START_S)

    def stop(self) -> None:
        """Stop it as a Deployment that is scaled to nothing stops it."""
        assert self.process is not None
        self.process.stop(_GRACE_S)

    def says(self, text: str) -> bool:
        """Whether a text is in the log of the one that runs."""
        return self.process is not None and self.process.log_says(text)

    def _certificate(self) -> str:
        with contextlib.closing(self._product.aws("eks")) as eks:
            return str(eks.describe_cluster(name=_CLUSTER)["cluster"]["certificateAuthority"]["data"])

    def _environment(self) -> dict[str, str]:
        environ = go_environment(
            self._product.environ,
            self._product.plane.kubeconfig,
            metrics_port=free_port(),
            health_port=free_port(),
        )
        return {
            **environ,
            # Not the key of our controller, which has the rights of our installation alone.
            "AWS_ACCESS_KEY_ID": "go",
            "AWS_SECRET_ACCESS_KEY": "go",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CLUSTER_NAME": _CLUSTER,
            "INTERRUPTION_QUEUE": _CLUSTER,
            # In a pod it has this from its service account; the sandbox's API speaks HTTP and has none.
            "CLUSTER_CA_BUNDLE": self._certificate(),
            "LOG_LEVEL": "debug",
        }


@contextlib.contextmanager
def go_controller(product: Product, program: Path, directory: Path) -> Iterator[GoController]:
    """The Go controller leading, for the length of a block."""
    directory.mkdir(parents=True, exist_ok=True)
    with ProcessGroup(directory) as group:
        controller = GoController(product, program, group)
        controller.start()
        yield controller
