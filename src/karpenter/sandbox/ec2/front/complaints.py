# SPDX-License-Identifier: Apache-2.0
"""How each service words what is wrong with a parameter or an action: same mistake, other code and sentence."""

from __future__ import annotations

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["malformed", "missing", "outside", "unknown_operation", "unknown_parameter"]

# The code for a parameter that is missing or breaks a constraint, where it is not ec2's.
_INVALID = {
    "sts": "ValidationError",
    "iam": "ValidationError",
    "sqs": "InvalidParameterValue",
    "ssm": "ValidationException",
    "eks": "InvalidParameterException",
    "pricing": "InvalidParameterException",
    "events": "ValidationException",
    "arc-zonal-shift": "ValidationException",
    "fis": "ValidationException",
}


def missing(service: str, path: str) -> ModelError:
    """Words that a required parameter is not there."""
    if service in {"ec2", "sqs"}:
        return ModelError("MissingParameter", f"The request must contain the parameter {path}")
    return ModelError(
        _INVALID[service],
        f"1 validation error detected: Value null at '{_lower(path)}' failed to satisfy constraint: "
        "Member must not be null",
    )


def unknown_parameter(service: str, path: str) -> ModelError:
    """Words that nobody knows such a parameter."""
    if service == "ec2":
        return ModelError("UnknownParameter", f"The parameter {path} is not recognized")
    return ModelError("MalformedInput", f"Unexpected parameter: {path}")


def malformed(service: str, path: str, value: object, kind: str) -> ModelError:
    """Words that a value cannot be read as what the parameter is."""
    if service == "ec2":
        return ModelError(
            "InvalidParameterValue", f"Value ({value}) for parameter {path} is invalid. Expected: {kind}."
        )
    if service in {"iam", "sts"}:
        return ModelError("MalformedInput", f"Value '{value}' at '{path}' is not of type {kind}")
    return ModelError("SerializationException", f"Value at '{path}' is not of type {kind}")


def outside(service: str, path: str, value: object, constraint: str) -> ModelError:
    """Words that a value breaks a constraint of its parameter."""
    if service == "ec2":
        return ModelError(
            "InvalidParameterValue", f"Value ({value}) for parameter {path} is invalid. {constraint}."
        )
    return ModelError(
        _INVALID[service],
        f"1 validation error detected: Value '{value}' at '{_lower(path)}' failed to satisfy constraint: {constraint}",
    )


def unknown_operation(service: str, name: str, version: str = "") -> ModelError:
    """Words that a service has no such action."""
    if service == "ec2":
        return ModelError("InvalidAction", f"The action {name} is not valid for this web service.")
    if service in {"iam", "sts"}:
        return ModelError("InvalidAction", f"Could not find operation {name} for version {version}")
    return ModelError("UnknownOperationException", f"The service {service} has no operation {name}")


def _lower(path: str) -> str:
    return path[:1].lower() + path[1:]
