# SPDX-License-Identifier: Apache-2.0
"""Where a sandbox lives on disk: one directory for each name, which only its owner can read.

::

    NAME/
      record.json    what it consists of; the token is in it
      kubeconfig     for kubectl
      logs/          a file for each program, and the one of its run before; of pods on the system node in pods/
      kube/          the API's objects, and its certificate
      ec2.journal    what happened in the EC2 model
      running/       a file for each program, locked for as long as it lives; of pods' processes in pods/

They are below KARPENTER_SANDBOX_HOME, or else where a user's programs keep their state (XDG_STATE_HOME). Commands that
change a sandbox lock it first, so that two at once cannot start everything twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from karpenter.sandbox.kube.serving.certificates import CERTIFICATE
from karpenter.sandbox.stack.errors import BusyError, SandboxNameError, StackError

__all__ = ["DEFAULT_NAME", "Home", "default_root", "homes"]

DEFAULT_NAME: Final = "default"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_RECORD: Final = "record.json"
_LOOK_AGAIN_S: Final = 0.05


def default_root(environ: Mapping[str, str]) -> Path:
    """Gives the directory that holds the sandboxes of this user."""
    chosen = environ.get("KARPENTER_SANDBOX_HOME")
    if chosen:
        return Path(chosen).absolute()
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "karpenter" / "sandboxes"


def homes(root: Path) -> list[Home]:
    """Gives all sandboxes that were written down, by name."""
    if not root.is_dir():
        return []
    return [Home(root, each.parent.name) for each in sorted(root.glob(f"*/{_RECORD}"))]


class Home:
    """The directory of one sandbox.

    Raises:
        SandboxNameError: The name cannot be that of a directory.
    """

    def __init__(self, root: Path, name: str = DEFAULT_NAME) -> None:
        if not _NAME.fullmatch(name):
            raise SandboxNameError(
                f"{name!r} cannot be the name of a sandbox",
                hint="up to 40 of a-z, 0-9 and -, such as try-2",
            )
        self.name = name
        self.root = root
        self.directory = root / name
        self.record = self.directory / _RECORD
        self.kubeconfig = self.directory / "kubeconfig"
        self.data = self.directory / "kube"
        self.authority = self.data / CERTIFICATE
        """The certificate that the API is known by."""
        self.journal = self.directory / "ec2.journal"
        self.owner = self.directory / "running" / "owner"
        """Locked by the command that the processes are to end with."""
        self.pods = self.directory / "running" / "pods"
        """A file for each process of a pod."""
        self.pod_logs = self.directory / "logs" / "pods"

    def log(self, piece: str) -> Path:
        """Gives the file with the words of a program."""
        return self.directory / "logs" / f"{piece}.log"

    def earlier_log(self, piece: str) -> Path:
        """Gives the file with the words of a program's run before."""
        return self.directory / "logs" / f"{piece}.before.log"

    def running(self, piece: str) -> Path:
        """Gives the file that is locked for as long as a program lives."""
        return self.directory / "running" / piece

    def make(self) -> None:
        """Makes the directories.

        Raises:
            StackError: They cannot be made.
        """
        self._make_root()
        try:
            for each in (self.directory, self.directory / "logs", self.directory / "running"):
                each.mkdir(mode=0o700, exist_ok=True)
        except OSError as refused:
            raise _unusable(self.directory, refused) from refused

    def _make_root(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as refused:
            raise _unusable(self.root, refused) from refused

    def empty(self) -> None:
        """Removes the API's objects, the model's machines and the logs."""
        self.journal.unlink(missing_ok=True)
        for each in (self.data, self.directory / "logs", self.pods):
            shutil.rmtree(each, ignore_errors=True)

    def remove(self) -> None:
        """Removes everything."""
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, patience_s: float = 10.0) -> Iterator[None]:
        """Keeps other commands away from this sandbox for the length of a block.

        Raises:
            BusyError: Another command works on it for longer than the patience.
        """
        self._make_root()
        # Beside the directory, which the block may remove.
        path = self.root / f".{self.name}.lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            end = time.monotonic() + patience_s
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as busy:
                    if time.monotonic() > end:
                        raise BusyError(
                            f"another command works on the sandbox {self.name!r}",
                            hint="wait for it, or choose another --name",
                        ) from busy
                    time.sleep(_LOOK_AGAIN_S)
            yield
        finally:
            os.close(fd)


def _unusable(directory: Path, refused: OSError) -> StackError:
    return StackError(
        f"{directory} cannot hold a sandbox: {refused.strerror}",
        hint="set KARPENTER_SANDBOX_HOME to a directory that can be written",
    )
