# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a whole sandbox, one class for each thing to do about it.

::

    StackError
      SandboxNameError     a name that no directory can have
      BusyError            another command works on the same sandbox
      UnreadableError      its record is damaged
      PortTakenError       a port that was asked for, or that it had before, is another program's
      OtherOptionsError    it runs, with other options than those asked for
      NotUpError           there is none of that name, or it does not run
      StartError           one of its programs did not come up
      StoppedError         the user wants no more
      CallError            the API or the EC2 model refused, or could not be reached
"""

from __future__ import annotations

from karpenter.errors import KarpenterError

__all__ = [
    "BusyError",
    "CallError",
    "NotUpError",
    "OtherOptionsError",
    "PortTakenError",
    "SandboxNameError",
    "StackError",
    "StartError",
    "StoppedError",
    "UnreadableError",
]


class StackError(KarpenterError):
    """Something is wrong with a sandbox as a whole."""


class SandboxNameError(StackError):
    """The name cannot be that of a sandbox."""


class BusyError(StackError):
    """Another command works on the same sandbox."""


class UnreadableError(StackError):
    """What was written down of a sandbox cannot be read."""


class PortTakenError(StackError):
    """A port belongs to another program."""


class OtherOptionsError(StackError):
    """The sandbox runs with other options than those asked for."""


class NotUpError(StackError):
    """There is no sandbox of that name, or it does not run."""


class StartError(StackError):
    """One of the programs did not come up."""


class StoppedError(StackError):
    """The user wants no more."""


class CallError(StackError):
    """The API or the EC2 model refused, or could not be reached.

    Attributes:
        status: The HTTP status; 0 where nobody answered.
    """

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status
