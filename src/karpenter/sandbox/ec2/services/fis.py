# SPDX-License-Identifier: Apache-2.0
"""AWS Fault Injection Service: experiments that interrupt, stop or terminate instances, on purpose and by plan.

A template names targets and actions; an experiment made of it finds its targets when it starts and does its actions
by the model's clock, each after those in its ``startAfter``. Modelled are ``aws:ec2:send-spot-instance-interruptions``,
``aws:ec2:stop-instances``, ``aws:ec2:terminate-instances`` and ``aws:fis:wait``. Stop conditions are kept and never
strike: there are no alarms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from karpenter.sandbox.ec2.compute.describing import instance_view
from karpenter.sandbox.ec2.compute.instances import stop, terminate
from karpenter.sandbox.ec2.compute.interruptions import interrupt_spot, recommend_rebalance
from karpenter.sandbox.ec2.compute.records import Instance, StateReason
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.paging import page

__all__ = ["Experiment", "Experiments", "handlers"]

Parameters = Mapping[str, Any]

_SPOT: Final = "aws:ec2:send-spot-instance-interruptions"
_STOP: Final = "aws:ec2:stop-instances"
_TERMINATE: Final = "aws:ec2:terminate-instances"
_WAIT: Final = "aws:fis:wait"
# The target that each action takes: its name and the type of its resources.
_TARGETS: Final[Mapping[str, tuple[str, str] | None]] = {
    _SPOT: ("SpotInstances", "aws:ec2:spot-instance"),
    _STOP: ("Instances", "aws:ec2:instance"),
    _TERMINATE: ("Instances", "aws:ec2:instance"),
    _WAIT: None,
}
_RESOURCES_PER_TARGET: Final = 5
_NOTICE: Final = timedelta(minutes=2)
_LONGEST_BEFORE_INTERRUPTION: Final = timedelta(minutes=15)
_PAGE: Final = 100
_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DURATION: Final = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")
_SELECTION: Final = re.compile(r"ALL|(COUNT|PERCENT)\((\d+)\)")
_ENDED: Final = StateReason("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: FIS experiment")


@dataclass(slots=True)
class Experiment:
    """One run of a template: when each action begins and ends, and why it failed or was stopped, if so."""

    id: str
    arn: str
    template_id: str
    template: Mapping[str, Any]
    created: datetime
    tags: dict[str, str]
    spans: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    failure: str = ""
    stopped: datetime | None = None

    @property
    def ends(self) -> datetime:
        """Return when the last action ends."""
        return max((end for _, end in self.spans.values()), default=self.created)


class Experiments:
    """The templates and experiments of the account."""

    def __init__(self, account: str, region: str, random: Random) -> None:
        self.templates: dict[str, dict[str, Any]] = {}
        self.experiments: dict[str, Experiment] = {}
        self.tokens: dict[tuple[str, str], str] = {}
        self._account = account
        self._region = region
        self._random = random

    def new_id(self, prefix: str) -> str:
        """Return a fresh id such as ``EXT1a2B3c4D5e6F7g``."""
        return prefix + "".join(self._random.choices(_ALPHABET, k=15))

    def arn(self, kind: str, identity: str) -> str:
        """Return the ARN of a template or an experiment."""
        return f"arn:aws:fis:{self._region}:{self._account}:{kind}/{identity}"


def create_experiment_template(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer CreateExperimentTemplate."""
    store = request.world.fis
    known = store.tokens.get(("template", parameters["clientToken"]))
    if known in store.templates:
        return {"experimentTemplate": store.templates[known]}
    _check_role(request, parameters["roleArn"])
    for name, target in parameters.get("targets", {}).items():
        _check_target(name, target)
    for name, action in parameters["actions"].items():
        _check_action(name, action, parameters)
    identity = store.new_id("EXT")
    template = {
        "id": identity,
        "arn": store.arn("experiment-template", identity),
        "description": parameters["description"],
        "targets": parameters.get("targets", {}),
        "actions": parameters["actions"],
        "stopConditions": parameters["stopConditions"],
        "creationTime": request.now,
        "lastUpdateTime": request.now,
        "roleArn": parameters["roleArn"],
        "tags": parameters.get("tags", {}),
        "experimentOptions": {
            "accountTargeting": "single-account",
            "emptyTargetResolutionMode": "fail",
            **parameters.get("experimentOptions", {}),
        },
        "targetAccountConfigurationsCount": 0,
    }
    store.templates[identity] = template
    store.tokens["template", parameters["clientToken"]] = identity
    return {"experimentTemplate": template}


def get_experiment_template(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer GetExperimentTemplate."""
    return {"experimentTemplate": _template(request, parameters["id"])}


def list_experiment_templates(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer ListExperimentTemplates."""
    names = ("id", "arn", "description", "creationTime", "lastUpdateTime", "tags")
    rows = [{name: each[name] for name in names} for each in request.world.fis.templates.values()]
    return _listed("experimentTemplates", rows, parameters)


def delete_experiment_template(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer DeleteExperimentTemplate; experiments made of the template go on."""
    template = _template(request, parameters["id"])
    del request.world.fis.templates[parameters["id"]]
    return {"experimentTemplate": template}


def start_experiment(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer StartExperiment: find the targets, and set the actions in motion."""
    store, ec2 = request.world.fis, request.world.ec2
    known = store.tokens.get(("experiment", parameters["clientToken"]))
    if known in store.experiments:
        return {"experiment": _shown(store.experiments[known], request.now)}
    template = _template(request, parameters["experimentTemplateId"])
    identity = store.new_id("EXP")
    experiment = Experiment(
        identity,
        store.arn("experiment", identity),
        template["id"],
        template,
        request.now,
        dict(parameters.get("tags", {})),
    )
    found = {name: _resolved(ec2, target) for name, target in template["targets"].items()}
    empty = sorted(name for name, instances in found.items() if not instances)
    if empty and template["experimentOptions"]["emptyTargetResolutionMode"] == "fail":
        experiment.failure = f"Target resolution returned empty set: {', '.join(empty)}"
    else:
        experiment.spans = _spans(template["actions"], request.now)
        for name, action in template["actions"].items():
            wanted = _TARGETS[action["actionId"]]
            instances = found[action["targets"][wanted[0]]] if wanted else []
            _set_in_motion(ec2, experiment, name, action, instances)
    store.experiments[identity] = experiment
    store.tokens["experiment", parameters["clientToken"]] = identity
    ec2.settle()
    return {"experiment": _shown(experiment, request.now)}


def get_experiment(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer GetExperiment."""
    return {"experiment": _shown(_experiment(request, parameters["id"]), request.now)}


def list_experiments(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer ListExperiments."""
    wanted = parameters.get("experimentTemplateId")
    names = ("id", "arn", "experimentTemplateId", "state", "creationTime", "tags", "experimentOptions")
    rows = [
        {name: shown[name] for name in names}
        for each in request.world.fis.experiments.values()
        if wanted in {None, each.template_id}
        for shown in (_shown(each, request.now),)
    ]
    return _listed("experiments", rows, parameters)


def stop_experiment(request: Request, parameters: Parameters) -> Mapping[str, Any]:
    """Answer StopExperiment; actions that have not begun never do."""
    experiment = _experiment(request, parameters["id"])
    if _status(experiment, request.now) != "running":
        raise _invalid(f"The experiment {experiment.id} is not running.")
    experiment.stopped = request.now
    return {"experiment": _shown(experiment, request.now)}


def handlers() -> Mapping[str, Handler]:
    """Return the handler of each operation."""
    return {
        "CreateExperimentTemplate": create_experiment_template,
        "GetExperimentTemplate": get_experiment_template,
        "ListExperimentTemplates": list_experiment_templates,
        "DeleteExperimentTemplate": delete_experiment_template,
        "StartExperiment": start_experiment,
        "GetExperiment": get_experiment,
        "ListExperiments": list_experiments,
        "StopExperiment": stop_experiment,
    }


def _check_role(request: Request, arn: str) -> None:
    role = next((each for each in request.world.iam.roles.values() if each.arn == arn), None)
    if role is None or "fis.amazonaws.com" not in role.trust:
        raise _invalid(f"The role {arn} does not exist or cannot be assumed by fis.amazonaws.com.")


def _check_target(name: str, target: Parameters) -> None:
    if target["resourceType"] not in {each[1] for each in _TARGETS.values() if each}:
        raise _invalid(f"The resource type {target['resourceType']} of target {name} is not supported.")
    arns = target.get("resourceArns", ())
    if len(arns) > _RESOURCES_PER_TARGET:
        raise _invalid(f"Target {name} has more than {_RESOURCES_PER_TARGET} resource ARNs.")
    if bool(arns) == bool(target.get("resourceTags")):
        raise _invalid(f"Target {name} needs either resource ARNs or resource tags.")
    if not _SELECTION.fullmatch(target["selectionMode"]):
        raise _invalid(f"The selection mode {target['selectionMode']} of target {name} is not valid.")


def _check_action(name: str, action: Parameters, template: Parameters) -> None:
    identity = action["actionId"]
    if identity not in _TARGETS:
        raise _invalid(f"The action {identity} of {name} is not modelled; {', '.join(_TARGETS)} are.")
    for other in action.get("startAfter", ()):
        if other == name or other not in template["actions"]:
            raise _invalid(f"Action {name} starts after {other}, which is no other action.")
    if wanted := _TARGETS[identity]:
        target = template.get("targets", {}).get(action.get("targets", {}).get(wanted[0], ""))
        if target is None or target["resourceType"] != wanted[1]:
            raise _invalid(f"Action {name} needs the target {wanted[0]} of the type {wanted[1]}.")
    given = action.get("parameters", {})
    if identity == _SPOT:
        before = _duration(given.get("durationBeforeInterruption", ""), name)
        if not _NOTICE <= before <= _LONGEST_BEFORE_INTERRUPTION:
            raise _invalid(f"The durationBeforeInterruption of {name} is not between 2 and 15 minutes.")
    elif identity == _WAIT:
        _duration(given.get("duration", ""), name)


def _duration(text: str, action: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise _invalid(f"Action {action} has {text!r} where a duration such as PT2M is needed.")
    hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _resolved(ec2: Store, target: Parameters) -> list[Instance]:
    """Return the instances that a target means now, oldest first."""
    found = [
        each for each in ec2.instances.values() if each.seen and each.alive and _meant(ec2, each, target)
    ]
    match = _SELECTION.fullmatch(target["selectionMode"])
    if match is None or match[1] is None:
        return found
    count = int(match[2]) if match[1] == "COUNT" else -(-len(found) * int(match[2]) // 100)
    return found[:count]


def _meant(ec2: Store, instance: Instance, target: Parameters) -> bool:
    if target["resourceType"] == "aws:ec2:spot-instance" and instance.capacity_type != "spot":
        return False
    arns = target.get("resourceArns")
    if arns and ec2.account.arn(f"instance/{instance.id}") not in arns:
        return False
    if any(instance.tags.get(key) != value for key, value in target.get("resourceTags", {}).items()):
        return False
    filters: Iterable[Parameters] = target.get("filters", ())
    view = instance_view(ec2, instance)
    return all(_at_path(view, each["path"]) in each["values"] for each in filters)


def _at_path(view: Any, path: str) -> Any:
    for step in path.split("."):
        view = view.get(step) if isinstance(view, Mapping) else None
    return view


def _spans(actions: Mapping[str, Parameters], now: datetime) -> dict[str, tuple[datetime, datetime]]:
    """Return when each action begins and ends: after those that it waits for."""
    spans: dict[str, tuple[datetime, datetime]] = {}
    waiting = dict(actions)
    while waiting:
        ready = [
            name for name, each in waiting.items() if all(one in spans for one in each.get("startAfter", ()))
        ]
        if not ready:
            raise _invalid(f"The actions {', '.join(waiting)} wait for each other.")
        for name in ready:
            action = waiting.pop(name)
            begin = max((spans[one][1] for one in action.get("startAfter", ())), default=now)
            spans[name] = begin, begin + _lasting(name, action)
    return spans


def _lasting(name: str, action: Parameters) -> timedelta:
    given = action.get("parameters", {})
    if action["actionId"] == _SPOT:
        return _duration(given["durationBeforeInterruption"], name)
    return _duration(given["duration"], name) if action["actionId"] == _WAIT else timedelta(0)


def _set_in_motion(
    ec2: Store, experiment: Experiment, name: str, action: Parameters, instances: Sequence[Instance]
) -> None:
    """Plan what an action does; a stopped experiment begins nothing more."""
    begin, end = experiment.spans[name]

    def plan(moment: datetime, what: str, step: Callable[[datetime], None]) -> None:
        def unless_stopped(due: datetime) -> None:
            if experiment.stopped is None or experiment.stopped > moment:
                step(due)

        ec2.timers.at(moment, f"{experiment.id} {name}: {what}", unless_stopped)

    def end_all(due: datetime) -> None:
        for instance in instances:
            if action["actionId"] == _STOP:
                stop(ec2, instance, due, _ENDED)
            else:
                terminate(ec2, instance, due, _ENDED)

    if action["actionId"] == _SPOT:
        plan(begin, "recommends to rebalance", lambda due: recommend_rebalance(ec2, instances, due))
        plan(
            end - _NOTICE,
            "interrupts",
            lambda due: interrupt_spot(ec2, instances, _NOTICE.total_seconds(), due),
        )
    elif action["actionId"] != _WAIT:
        plan(begin, "ends instances", end_all)


def _status(experiment: Experiment, now: datetime) -> str:
    if experiment.failure:
        return "failed"
    if experiment.stopped:
        return "stopped"
    return "running" if now < experiment.ends else "completed"


def _shown(experiment: Experiment, now: datetime) -> dict[str, Any]:
    template, status = experiment.template, _status(experiment, now)
    shown = {
        "id": experiment.id,
        "arn": experiment.arn,
        "experimentTemplateId": experiment.template_id,
        "roleArn": template["roleArn"],
        "state": {"status": status, "reason": experiment.failure or f"Experiment {status}."},
        "targets": template["targets"],
        "actions": {
            name: {**action, **_action_state(experiment, name, now)}
            for name, action in template["actions"].items()
        },
        "stopConditions": template["stopConditions"],
        "creationTime": experiment.created,
        "startTime": experiment.created,
        "tags": experiment.tags,
        "experimentOptions": {**template["experimentOptions"], "actionsMode": "run-all"},
        "targetAccountConfigurationsCount": 0,
    }
    if status != "running":
        shown["endTime"] = experiment.stopped or experiment.ends
    return shown


def _action_state(experiment: Experiment, name: str, now: datetime) -> dict[str, Any]:
    if name not in experiment.spans:
        return {"state": {"status": "cancelled", "reason": experiment.failure}}
    begin, end = experiment.spans[name]
    if experiment.stopped and experiment.stopped <= begin:
        return {"state": {"status": "cancelled", "reason": "The experiment was stopped."}}
    if now < begin:
        return {"state": {"status": "pending", "reason": "The action waits for others."}}
    if now < end and not experiment.stopped:
        return {"state": {"status": "running", "reason": "Action is running."}, "startTime": begin}
    status = "stopped" if experiment.stopped and experiment.stopped < end else "completed"
    return {
        "state": {"status": status, "reason": f"Action {status}."},
        "startTime": begin,
        "endTime": min(end, experiment.stopped or end),
    }


def _template(request: Request, identity: str) -> dict[str, Any]:
    template = request.world.fis.templates.get(identity)
    if template is None:
        raise ModelError("ResourceNotFoundException", f"The template {identity} does not exist.", status=404)
    return template


def _experiment(request: Request, identity: str) -> Experiment:
    experiment = request.world.fis.experiments.get(identity)
    if experiment is None:
        raise ModelError(
            "ResourceNotFoundException", f"The experiment {identity} does not exist.", status=404
        )
    return experiment


def _listed(name: str, rows: Sequence[Mapping[str, Any]], parameters: Parameters) -> Mapping[str, Any]:
    shown, token = page(
        rows,
        lambda each: str(each["id"]),
        parameters.get("maxResults", _PAGE),
        parameters.get("nextToken"),
        refused="ValidationException",
    )
    return {name: shown, "nextToken": token}


def _invalid(message: str) -> ModelError:
    return ModelError("ValidationException", message)
