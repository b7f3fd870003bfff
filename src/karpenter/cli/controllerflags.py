# SPDX-License-Identifier: Apache-2.0
"""Settings of a sandbox's controller on the command line of ``karpenter sandbox up``: any flag that the controller has.

``--set NAME=VALUE`` takes the name of a flag, with or without its dashes, or of its environment variable. A name that
there is not is refused with the nearest one, a value as the controller itself would refuse it: before anything is
started, not in the log of a process that ends. What a sandbox decides itself cannot be set.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from karpenter.cli.main import InputError
from karpenter.operator.settings import Setting, SettingsError, read_settings, table

__all__ = ["controller_settings"]

# Flag, and what to use instead.
_OWN: Final[Mapping[str, str]] = {
    "cluster-name": "use --cluster-name",
    "bind-address": "everything in a sandbox listens on 127.0.0.1",
    "metrics-port": "'karpenter sandbox status' shows the port that was chosen",
    "health-probe-port": "'karpenter sandbox status' shows the port that was chosen",
    "leader-election-namespace": "the lease is beside the controller; use --controller-namespace",
    "karpenter-service": "it is called karpenter",
}


def controller_settings(
    pairs: Iterable[str], *, feature_gates: str = "", default_instance_profile: str = ""
) -> dict[str, str]:
    """Return the settings by flag, without dashes in front.

    Args:
        pairs: What was given with ``--set``, as ``NAME=VALUE``.
        feature_gates: What was given with ``--feature-gates``.
        default_instance_profile: What was given with ``--default-instance-profile``.

    Raises:
        InputError: A pair is none, a name is unknown, the sandbox's own or given twice, or a value makes no sense.
    """
    found: dict[str, str] = {}
    if feature_gates:
        found["feature-gates"] = feature_gates
    if default_instance_profile:
        found["default-instance-profile"] = default_instance_profile
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise InputError(
                f"--set {pair}: there is no value", hint=f"write --set {name}=VALUE, such as log-level=debug"
            )
        flag = _setting(name.strip()).flag.removeprefix("--")
        if flag in _OWN:
            raise InputError(f"--set {name}: the sandbox decides this itself", hint=_OWN[flag])
        if flag in found:
            raise InputError(f"--set {name}: --{flag} is given twice", hint="give it once")
        found[flag] = value
    _check(found)
    return found


def _setting(name: str) -> Setting:
    wanted = name.removeprefix("--").replace("_", "-").lower()
    known = {word: each for each in table() for word in (each.flag[2:], each.env.lower().replace("_", "-"))}
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=1)
    raise InputError(
        f"--set {name}: the controller has no setting of that name",
        hint=f"did you mean {near[0]}?" if near else "'karpenter controller --help' lists them",
    )


def _check(found: Mapping[str, str]) -> None:
    try:
        flags = {name.replace("-", "_"): value for name, value in found.items()}
        read_settings({"cluster_name": "sandbox", **flags}, {})
    except SettingsError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
