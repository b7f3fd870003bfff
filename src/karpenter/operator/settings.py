# SPDX-License-Identifier: Apache-2.0
"""Settings of the controller: Karpenter's flags and environment variables, with its defaults, in one table.

Each setting is a flag, an environment variable, a default and a reader that refuses nonsense with the name of the
setting and an example. The flag wins over the variable, the variable over the default. The table also makes the
help text, the documentation and the chart's environment, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final

from karpenter.errors import KarpenterError
from karpenter.kit.durations import Duration, DurationError, parse_duration
from karpenter.observe import Detail
from karpenter.observe.logs import LEVELS

__all__ = [
    "GATES",
    "Gates",
    "Setting",
    "Settings",
    "SettingsError",
    "read_settings",
    "state_namespace",
    "table",
]

_KUBE_SYSTEM: Final = "kube-system"

CLUSTER: Final = "Cluster and AWS"
DECIDING: Final = "Deciding"
REMOVING: Final = "Removing nodes"
RUNNING: Final = "Running"
SEEING: Final = "Logs, metrics, probes"


class SettingsError(KarpenterError):
    """A setting that cannot be used."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Features that can be switched, with Karpenter's names and defaults."""

    node_repair: bool = False
    reserved_capacity: bool = True
    spot_to_spot_consolidation: bool = False
    node_overlay: bool = False
    static_capacity: bool = False
    capacity_buffer: bool = False


GATES: Final[Mapping[str, str]] = {
    "NodeRepair": "node_repair",
    "ReservedCapacity": "reserved_capacity",
    "SpotToSpotConsolidation": "spot_to_spot_consolidation",
    "NodeOverlay": "node_overlay",
    "StaticCapacity": "static_capacity",
    "CapacityBuffer": "capacity_buffer",
}
# Gates of older Karpenter releases whose features cannot be switched any more.
_DECIDED_GATES: Final[Mapping[str, str]] = {"Drift": "drift is always on"}


def _text(text: str) -> str:
    return text


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in {"true", "1", "t"}:
        return True
    if lowered in {"false", "0", "f", ""}:
        return False
    raise ValueError("must be true or false")


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(f"must be {least} or more")
        return value

    return read


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise ValueError("must be from 0 to 65535")
    return value


def _dollars(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError("must be an amount of dollars, e.g. 0.01")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise ValueError("must be from 0 to below 1, e.g. 0.075 for 7.5 %")
    return value


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Reads a duration of at least so many seconds."""

    least_s: float

    def __call__(self, text: str) -> float:
        value = parse_duration(text).seconds
        if value < self.least_s:
            raise ValueError(f"must be {self.least_s:g}s or more")
        return value


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return read


def _no_gate(name: str) -> str:
    if name in _DECIDED_GATES:
        return f"the feature gate {name} is gone: {_DECIDED_GATES[name]}; leave it out"
    by_lower = {each.lower(): each for each in GATES}
    close = get_close_matches(name.lower(), by_lower, n=1)
    meant = f"did you mean {by_lower[close[0]]}?" if close else f"there are {', '.join(GATES)}"
    return f"there is no feature gate {name}; {meant}"


def _gates(text: str) -> Gates:
    chosen = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator:
            raise ValueError(f"{part!r} is not of the form Name=true")
        if name not in GATES:
            raise ValueError(_no_gate(name))
        try:
            chosen[GATES[name]] = _flag(value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from error
    return Gates(**chosen)


def _details(text: str) -> frozenset[Detail]:
    wanted = frozenset(each.strip() for each in text.split(",") if each.strip())
    if wanted == {"all"}:
        return frozenset(Detail)
    unknown = wanted.difference(Detail)
    if unknown:
        raise ValueError(f"{min(unknown)!r} is none of {', '.join(Detail)}, all")
    return frozenset(map(Detail, wanted))


def _state_namespace(text: str) -> str:
    if text == _KUBE_SYSTEM:
        raise ValueError(
            "rights on its ConfigMaps would reach aws-auth; choose a namespace of Karpenter's own"
        )
    return text


def state_namespace(settings: Settings, own: str) -> str:
    """Give the namespace where state is kept, given the one that the controller runs in: never kube-system."""
    if settings.state_namespace:
        return settings.state_namespace
    lease = settings.leader_election_namespace or own
    return "karpenter-state" if lease == _KUBE_SYSTEM else lease


def _setting(
    default: Any, text: str, group: str, read: Callable[[str], Any], *, example: str = "", env: str = ""
) -> Any:
    about = {"text": text, "group": group, "read": read, "example": example, "env": env}
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set; names are the flags' with underscores."""

    cluster_name: str = _setting("", "Name of the EKS cluster (required).", CLUSTER, _text)
    cluster_endpoint: str = _setting(
        "", "The cluster's API address; asked from EKS if empty.", CLUSTER, _text
    )
    cluster_ca_bundle: str = _setting(
        "", "The cluster's authority in base64; asked from EKS if empty.", CLUSTER, _text
    )
    interruption_queue: str = _setting(
        "", "SQS queue with interruption notices; empty switches them off.", CLUSTER, _text
    )
    default_instance_profile: str = _setting(
        "", "Instance profile of old AWSNodeTemplates that name none.", CLUSTER, _text
    )
    isolated_vpc: bool = _setting(
        False, "The VPC has no way to AWS services outside, such as prices.", CLUSTER, _flag
    )
    eks_control_plane: bool = _setting(True, "The cluster is on EKS.", CLUSTER, _flag)
    vm_memory_overhead_percent: float = _setting(
        0.075, "Share of memory that the hypervisor takes.", CLUSTER, _share
    )
    reserved_enis: int = _setting(0, "Network interfaces that pods may not use.", CLUSTER, _whole(0))
    disable_dry_run: bool = _setting(False, "Do not check rights by dry runs.", CLUSTER, _flag)
    enable_zonal_shift: bool = _setting(False, "Heed zonal shifts of ARC.", CLUSTER, _flag)
    ami_refresh_interval: float = _setting(
        60.0, "How often images are looked up.", CLUSTER, _Seconds(60), example="1m"
    )
    subnet_refresh_interval: float = _setting(
        60.0, "How often subnets are looked up.", CLUSTER, _Seconds(60), example="1m"
    )
    batch_idle_duration: float = _setting(
        1.0, "A batch of pods ends after so long without a new one.", DECIDING, _Seconds(0), example="1s"
    )
    batch_max_duration: float = _setting(
        10.0, "A batch of pods is gathered for at most so long.", DECIDING, _Seconds(0), example="10s"
    )
    batch_first_duration: float = _setting(
        0.15,
        "The first batch after a quiet spell ends after so long without a new pod.",
        DECIDING,
        _Seconds(0),
        example="150ms",
    )
    preference_policy: str = _setting(
        "Respect", "Whether wishes of pods count.", DECIDING, _one_of("Respect", "Ignore")
    )
    min_values_policy: str = _setting(
        "Strict", "What to do when minValues cannot be kept.", DECIDING, _one_of("Strict", "BestEffort")
    )
    nominate_pods: bool = _setting(
        True, "Tell the scheduler which node each planned pod is to go to.", DECIDING, _flag
    )
    early_placement: bool = _setting(
        False, "Bind planned pods as soon as their node exists, before it is ready.", DECIDING, _flag
    )
    ignore_dra_requests: bool = _setting(True, "Leave pods with resource claims alone.", DECIDING, _flag)
    solve_deadline: float = _setting(
        60.0, "What is placed by then is the plan.", DECIDING, _Seconds(0.1), example="1m"
    )
    registration_timeout: float = _setting(
        900.0, "A node that has not joined by then is replaced.", DECIDING, _Seconds(1), example="15m"
    )
    initialization_timeout: float = _setting(
        900.0,
        "A node that is not ready so long after it joined is replaced, unless a workload runs on it; 0 waits for ever.",
        DECIDING,
        _Seconds(0),
        example="15m",
    )
    disruption_validation_delay: float = _setting(
        5.0,
        "How long a node that is to go stays tainted before it is looked at again.",
        REMOVING,
        _Seconds(0),
        example="5s",
    )
    disruption_replacement_timeout: float = _setting(
        600.0,
        "A removal whose replacements are not ready by then is taken back.",
        REMOVING,
        _Seconds(1),
        example="10m",
    )
    disruption_gather_duration: float = _setting(
        1.0, "How long changes are gathered before nodes are looked at.", REMOVING, _Seconds(0), example="1s"
    )
    consolidation_deadline: float = _setting(
        60.0, "The cheapest cluster found by then counts.", REMOVING, _Seconds(0.1), example="1m"
    )
    consolidation_tries: int = _setting(
        400, "How many rearrangements of the cluster are tried.", REMOVING, _whole(0)
    )
    consolidation_eviction_price: float = _setting(
        0.15, "What moving one ordinary pod is worth, in dollars.", REMOVING, _dollars
    )
    consolidation_horizon: float = _setting(
        86_400.0,
        "How long a saving is expected to last, before a pool has taught otherwise.",
        REMOVING,
        _Seconds(60),
        example="24h",
    )
    consolidation_horizon_floor: float = _setting(
        10_800.0, "The shortest horizon that regret can teach.", REMOVING, _Seconds(60), example="3h"
    )
    consolidation_horizon_ceiling: float = _setting(
        86_400.0, "The longest horizon that quiet can teach.", REMOVING, _Seconds(60), example="24h"
    )
    consolidation_minimum_saving: float = _setting(
        0.02, "The least saving worth a move, as a share of what goes.", REMOVING, _share, example="0.02"
    )
    garbage_collection_share: float = _setting(
        0.1,
        "How much of the fleet one round of garbage collection may end, at least one; 0 ends nothing.",
        REMOVING,
        _share,
        example="0.1",
    )
    feature_gates: Gates = _setting(  # noqa: RUF009 - it makes a field, as field() does
        Gates(), "Features to switch.", DECIDING, _gates, example="NodeRepair=true,ReservedCapacity=false"
    )
    kube_client_qps: int = _setting(200, "Requests a second to the API server.", RUNNING, _whole(1))
    kube_client_burst: int = _setting(300, "Requests at once to the API server.", RUNNING, _whole(1))
    disable_leader_election: bool = _setting(False, "Act without a lease.", RUNNING, _flag)
    leader_election_name: str = _setting("karpenter-leader-election", "Name of the lease.", RUNNING, _text)
    leader_election_namespace: str = _setting(
        "", "Namespace of the lease; that of the pod if empty.", RUNNING, _text
    )
    state_namespace: str = _setting(
        "",
        "Namespace of ConfigMaps with launches under way and what was learnt; that of the lease if empty, or"
        " karpenter-state if that is kube-system.",
        RUNNING,
        _state_namespace,
    )
    karpenter_service: str = _setting("", "Name of the Service in front of the pods.", RUNNING, _text)
    memory_limit: int = _setting(
        -1, "Memory limit of the container in bytes; -1 for none.", RUNNING, _whole(-1)
    )
    cpu_requests: int = _setting(1000, "CPU request of the container in millicores.", RUNNING, _whole(1))
    log_level: str = _setting("info", "What is logged.", SEEING, _one_of(*LEVELS))
    log_output_paths: str = _setting("stdout", "Where logs go: stdout, stderr or a file.", SEEING, _text)
    metrics_port: int = _setting(8080, "Port of /metrics; 0 for any free one.", SEEING, _port)
    health_probe_port: int = _setting(
        8081, "Port of /healthz and /readyz; 0 for any free one.", SEEING, _port
    )
    detailed_metrics: frozenset[Detail] = _setting(
        frozenset(),
        "Metrics with a series for each of nodes, pods or instancetypes, by comma; all for every one.",
        SEEING,
        _details,
        example="nodes,pods",
    )
    bind_address: str = _setting("0.0.0.0", "Where metrics and probes listen.", SEEING, _text)  # noqa: S104
    enable_profiling: bool = _setting(
        False, "Serve profiles below /debug/pprof/ on the port of the metrics.", SEEING, _flag
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    flag: str
    env: str
    default: Any
    text: str
    group: str
    example: str
    read: Callable[[str], Any]

    @property
    def shown_default(self) -> str:
        """The default as it would be typed, in its unit; empty where there is none."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, Gates):
            return ",".join(
                f"{name}={str(getattr(self.default, field)).lower()}" for name, field in GATES.items()
            )
        if isinstance(self.read, _Seconds):
            return Duration.of(milliseconds=round(self.default * 1000)).short()
        if isinstance(self.default, frozenset):
            return ",".join(sorted(self.default))
        return str(self.default)


def table() -> tuple[Setting, ...]:
    """Gives every setting, in the order of the help text."""
    return tuple(
        Setting(
            name=each.name,
            flag="--" + each.name.replace("_", "-"),
            env=each.metadata["env"] or each.name.upper(),
            default=each.default,
            text=each.metadata["text"],
            group=each.metadata["group"],
            example=each.metadata["example"],
            read=each.metadata["read"],
        )
        for each in fields(Settings)
    )


def read_settings(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> Settings:
    """Reads the settings from flags (by name) and the environment.

    Raises:
        SettingsError: A value makes no sense, or the cluster has no name.
    """
    values = {}
    for setting in table():
        given = flags.get(setting.name)
        where, text = (setting.flag, given) if given is not None else (setting.env, environ.get(setting.env))
        if text is None or (text == "" and not isinstance(setting.default, str)):
            continue
        try:
            values[setting.name] = setting.read(text)
        except (ValueError, DurationError) as error:
            example = f"e.g. {setting.flag}={setting.example}" if setting.example else ""
            raise SettingsError(f"{where}={text}: {error}", hint=example) from error
    settings = Settings(**values)
    if not settings.cluster_name:
        raise SettingsError(
            "the name of the cluster is not set", hint="pass --cluster-name NAME or set CLUSTER_NAME"
        )
    if settings.batch_idle_duration > settings.batch_max_duration:
        raise SettingsError(
            f"--batch-idle-duration {settings.batch_idle_duration:g}s is longer than "
            f"--batch-max-duration {settings.batch_max_duration:g}s",
            hint="a batch ends at the maximum, so the idle time must be shorter",
        )
    return settings
