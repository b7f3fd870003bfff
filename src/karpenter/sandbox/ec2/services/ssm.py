# SPDX-License-Identifier: Apache-2.0
"""SSM's parameter store: the public parameters that name machine images, and a user's own.

Parameters are found by name, by name and version (``name:3``) or by ARN. Users cannot write below ``/aws``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.paging import page

__all__ = ["Parameter", "Parameters", "handlers"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One version of a parameter."""

    name: str
    value: str
    type: str
    data_type: str
    version: int
    modified_at: datetime


class Parameters:
    """All parameters by name, each with its versions, oldest first."""

    def __init__(self, account: str, region: str) -> None:
        self._account = account
        self._region = region
        self._versions: dict[str, list[Parameter]] = {}

    def put(
        self, name: str, value: str, now: datetime, *, type_: str = "String", data_type: str = "text"
    ) -> Parameter:
        """Sets a parameter, as its next version."""
        versions = self._versions.setdefault(name, [])
        parameter = Parameter(name, value, type_, data_type, len(versions) + 1, now)
        versions.append(parameter)
        return parameter

    def delete(self, name: str) -> bool:
        """Forgets a parameter; tells whether there was one."""
        return self._versions.pop(name, None) is not None

    def find(self, wanted: str) -> Parameter | None:
        """Gives a parameter by name, name and version, or ARN."""
        name = wanted
        if wanted.startswith("arn:"):
            name = wanted.partition(":parameter")[2]
            name = name if name in self._versions else name.removeprefix("/")
        name, _, version = name.partition(":")
        versions = self._versions.get(name, [])
        if not version:
            return versions[-1] if versions else None
        return next((each for each in versions if str(each.version) == version), None)

    def below(self, path: str, *, recursive: bool) -> list[Parameter]:
        """Gives the parameters under a path: all of them, or the next level only."""
        stem = path.rstrip("/") + "/"
        return [
            versions[-1]
            for name, versions in self._versions.items()
            if name.startswith(stem) and (recursive or "/" not in name[len(stem) :])
        ]

    @property
    def names(self) -> list[str]:
        """Gives the names of all parameters."""
        return sorted(self._versions)

    def arn(self, name: str) -> str:
        """Gives the ARN of a parameter; public ones belong to no account."""
        account = "" if name.startswith("/aws/") else self._account
        return f"arn:aws:ssm:{self._region}:{account}:parameter{'' if name.startswith('/') else '/'}{name}"


def get_parameter(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives one parameter."""
    found = request.world.ssm.find(parameters["Name"])
    if found is None:
        raise ModelError("ParameterNotFound", "")
    return {"Parameter": _shown(request, found)}


def get_parameters(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives up to ten parameters, and the names of those that do not exist."""
    found = {name: request.world.ssm.find(name) for name in parameters["Names"]}
    return {
        "Parameters": [_shown(request, each) for each in found.values() if each],
        "InvalidParameters": [name for name, each in found.items() if each is None],
    }


def get_parameters_by_path(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the parameters under a path, ten at a time."""
    path = parameters["Path"]
    if not path.startswith("/"):
        raise ModelError("ValidationException", "The parameter doesn't meet the parameter name requirements.")
    shown, token = page(
        request.world.ssm.below(path, recursive=parameters.get("Recursive", False)),
        lambda each: each.name,
        parameters.get("MaxResults", 10),
        parameters.get("NextToken"),
        refused="InvalidNextToken",
    )
    return {"Parameters": [_shown(request, each) for each in shown], "NextToken": token}


def put_parameter(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets a parameter of the user."""
    name = parameters["Name"]
    if name.lower().lstrip("/").startswith(("aws", "ssm")):
        raise ModelError("AccessDeniedException", f"No access to reserved parameter name: {name}.")
    if request.world.ssm.find(name) is not None and not parameters.get("Overwrite"):
        raise ModelError(
            "ParameterAlreadyExists",
            "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.",
        )
    made = request.world.ssm.put(
        name,
        parameters["Value"],
        request.now,
        type_=parameters.get("Type", "String"),
        data_type=parameters.get("DataType", "text"),
    )
    return {"Version": made.version, "Tier": "Standard"}


def delete_parameter(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets a parameter of the user."""
    name = parameters["Name"]
    if name.startswith("/aws/") or not request.world.ssm.delete(name):
        raise ModelError("ParameterNotFound", "")
    return {}


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {
        "GetParameter": get_parameter,
        "GetParameters": get_parameters,
        "GetParametersByPath": get_parameters_by_path,
        "PutParameter": put_parameter,
        "DeleteParameter": delete_parameter,
    }


def _shown(request: Request, parameter: Parameter) -> dict[str, Any]:
    return {
        "Name": parameter.name,
        "Type": parameter.type,
        "Value": parameter.value,
        "Version": parameter.version,
        "LastModifiedDate": parameter.modified_at,
        "ARN": request.world.ssm.arn(parameter.name),
        "DataType": parameter.data_type,
    }
