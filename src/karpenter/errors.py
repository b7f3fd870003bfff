# SPDX-License-Identifier: Apache-2.0
"""Every error of ours descends from one class, so that the edge (CLI, controller loop) can print it well.

::

    KarpenterError
      QuantityError, DurationError, CronError     kit: a text that does not parse
      SupervisorError                             kit: a task that cannot be started
      ManifestError                               api: YAML or JSON that cannot be read, with line and column
      UnknownKindError                            api: an apiVersion or kind that we do not serve
      ValidationFailedError                       api: an object that breaks its schema, all problems at once
      SchemaError, PatternError                   api: a definition that is itself wrong, a defect of its author
      RequirementError                            model: a requirement that says nothing
      KubeError                                   kube: see kube.errors, one class for each thing to do about it
      CloudError                                  cloud: see cloud.errors, what a caller acts on
      AwsError, AwsUnreachableError               cloud.aws: AWS said no, or said nothing
      AccountUnknownError                         cloud.aws: nothing names the account of our credentials
      UserDataError, AmiSelectionError, FamilyError  cloud.aws: a node class that cannot be launched from
      SettingsError, ProbesError                  operator: a setting or a port that cannot be used
      ClockError, ActionError, ScenarioError      sandbox.ec2: what the model cannot be told
      StateError, TokenFileError                  sandbox.kube: files that cannot be used
      KubeconfigError, BehaviourError             sandbox.kubelets: likewise
      OwnedError                                  sandbox.kubelets: processes that are another program's
      PortTakenError                              sandbox.ec2, sandbox.kube: an address that is another program's
      StackError                                  sandbox.stack: see sandbox.stack.errors, a sandbox as a whole
      InputError, DemoError                       cli: what cannot be read; what the demo waited for in vain

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
