# SPDX-License-Identifier: Apache-2.0
"""EventBridge's operations on the default bus: rules, their targets, and events of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from karpenter.sandbox.ec2.bus import Rule, checked_pattern
from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.paging import page

__all__ = ["handlers"]

_TARGETS_PER_RULE = 5


def put_rule(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Makes a rule or changes it; its targets stay."""
    name, text = parameters["Name"], parameters.get("EventPattern")
    if text is None:
        raise ModelError(
            "ValidationException", "Parameter(s) EventPattern or ScheduleExpression must be specified."
        )
    rule = Rule(
        name,
        checked_pattern(text),
        text,
        enabled=parameters.get("State", "ENABLED") != "DISABLED",
        description=parameters.get("Description", ""),
        tags={tag["Key"]: tag["Value"] for tag in parameters.get("Tags", [])},
    )
    before = request.world.bus.rules.get(name)
    if before is not None:
        rule.targets = before.targets
        # EventBridge takes tags only with a new rule.
        rule.tags = before.tags
    request.world.bus.rules[name] = rule
    return {"RuleArn": _arn(request, name)}


def put_targets(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sends a rule's events to more targets."""
    rule = _rule(request, parameters["Rule"])
    targets = {target["Id"]: target for target in parameters["Targets"]}
    if len(rule.targets | targets) > _TARGETS_PER_RULE:
        raise ModelError(
            "LimitExceededException",
            f"The requested resource exceeds the maximum number allowed: {rule.name}",
        )
    rule.targets.update(targets)
    return _all_done()


def remove_targets(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stops sending a rule's events to targets."""
    rule = _rule(request, parameters["Rule"])
    for id_ in parameters["Ids"]:
        rule.targets.pop(id_, None)
    return _all_done()


def delete_rule(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets a rule without targets; one that does not exist is no error."""
    rule = request.world.bus.rules.get(parameters["Name"])
    if rule is not None and rule.targets:
        raise ModelError("ValidationException", "Rule can't be deleted since it has targets.")
    request.world.bus.rules.pop(parameters["Name"], None)
    return {}


def describe_rule(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives one rule."""
    return _shown(request, _rule(request, parameters["Name"]))


def list_rules(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the rules whose name starts with a prefix."""
    prefix = parameters.get("NamePrefix", "")
    shown, token = page(
        [rule for rule in request.world.bus.rules.values() if rule.name.startswith(prefix)],
        lambda rule: rule.name,
        parameters.get("Limit", 100),
        parameters.get("NextToken"),
        refused="ValidationException",
    )
    return {"Rules": [_shown(request, rule) for rule in shown], "NextToken": token}


def list_targets_by_rule(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a rule's targets."""
    return {"Targets": list(_rule(request, parameters["Rule"]).targets.values())}


def list_tags_for_resource(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the tags of a rule."""
    rule = _rule(request, parameters["ResourceARN"].rpartition("/")[2])
    return {"Tags": [{"Key": key, "Value": value} for key, value in rule.tags.items()]}


def put_events(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Publishes events; each one that is wrong fails alone."""
    results = [_put_event(request, entry) for entry in parameters["Entries"]]
    return {"FailedEntryCount": sum("ErrorCode" in each for each in results), "Entries": results}


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {
        "PutRule": put_rule,
        "PutTargets": put_targets,
        "RemoveTargets": remove_targets,
        "DeleteRule": delete_rule,
        "DescribeRule": describe_rule,
        "ListRules": list_rules,
        "ListTargetsByRule": list_targets_by_rule,
        "ListTagsForResource": list_tags_for_resource,
        "PutEvents": put_events,
    }


def _put_event(request: Request, entry: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("Source", "DetailType", "Detail"):
        if not entry.get(name):
            return {
                "ErrorCode": "InvalidArgument",
                "ErrorMessage": f"Parameter {name} is not valid. Reason: {name} is a required argument.",
            }
    if entry["Source"].startswith("aws."):
        return {
            "ErrorCode": "NotAuthorizedForSourceException",
            "ErrorMessage": f"Not authorized for the source {entry['Source']}.",
        }
    try:
        detail = json.loads(entry["Detail"])
    except ValueError:
        detail = None
    if not isinstance(detail, dict):
        return {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}
    id_ = request.world.bus.publish(
        entry["Source"], entry["DetailType"], detail, entry.get("Resources", ()), entry.get("Time")
    )
    return {"EventId": id_}


def _rule(request: Request, name: str) -> Rule:
    rule = request.world.bus.rules.get(name)
    if rule is None:
        raise ModelError("ResourceNotFoundException", f"Rule {name} does not exist on EventBus default.")
    return rule


def _arn(request: Request, name: str) -> str:
    return f"arn:aws:events:{request.world.region}:{request.world.account}:rule/{name}"


def _shown(request: Request, rule: Rule) -> dict[str, Any]:
    return {
        "Name": rule.name,
        "Arn": _arn(request, rule.name),
        "EventPattern": rule.pattern_text,
        "State": "ENABLED" if rule.enabled else "DISABLED",
        "Description": rule.description,
        "EventBusName": "default",
    }


def _all_done() -> dict[str, Any]:
    return {"FailedEntryCount": 0, "FailedEntries": []}
