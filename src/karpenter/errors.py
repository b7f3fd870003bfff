# SPDX-License-Identifier: Apache-2.0
"""Every error of ours descends from one class, so that the edge (CLI, controller loop) can print it well.

::

    KarpenterError
      QuantityError, DurationError, CronError     kit: a text that does not parse
      ManifestError                               api: YAML that cannot be read, with line and column
      UnknownKindError                            api: an apiVersion or kind that we do not serve
      ValidationFailedError(problems)             api: an object that breaks its schema, all problems at once
      ConversionRefusedError(problems)            api: an old object whose meaning v1 cannot carry
      RequirementError                            model: a requirement that says nothing
      ProblemError                                scheduling: a problem file that says what cannot be
      InputError                                  cli: something that was asked for cannot be read

An expected outcome is a value, not an exception: a pod that does not fit is a rejection with reasons.
"""

from __future__ import annotations

__all__ = ["KarpenterError"]


class KarpenterError(Exception):
    """An error that a person reads: what happened to which object, and in ``hint`` what to do next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
