# SPDX-License-Identifier: Apache-2.0
"""Every AWS error code that means something to us, and what it means.

``classify`` turns a code and its message into a cause: its kind (what we do about it), the launch failure reason that
Karpenter gives it, and a hint for the person who can remove it. A code that is not in the table is a ``LaunchFailed``
of kind OTHER; nothing is guessed from a message but the few things that AWS says nowhere else.

Only kind CAPACITY, QUOTA and ADDRESSES make an offering unavailable for a while. A throttle never does: it says
nothing about capacity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from karpenter.cloud.errors import LAUNCH_FAILED

__all__ = [
    "DRY_RUN_PASSED",
    "PARAMETERS_REFUSED",
    "SLR_DENIED",
    "Cause",
    "Kind",
    "classify",
    "is_already_there",
    "is_not_found",
    "is_template_missing",
    "is_throttle",
]

DRY_RUN_PASSED: Final = "DryRunOperation"
SLR_DENIED: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
# Ours, for what botocore refuses before it is sent.
PARAMETERS_REFUSED: Final = "ParameterValidation"


class Kind(Enum):
    """What an error is about, and so what is done next."""

    CAPACITY = "capacity"  # buy another offering
    QUOTA = "quota"  # buy another offering; a person may raise the quota
    ADDRESSES = "addresses"  # use another subnet
    PERMISSION = "permission"  # a person must grant something
    KMS = "kms"  # a person must open a key
    TEMPLATE_MISSING = "template missing"  # make the launch template again, then once more
    NOT_FOUND = "not found"  # it is gone
    ALREADY_EXISTS = "already exists"  # it is there
    THROTTLE = "throttle"  # slower
    INTERNAL = "internal"  # AWS' own trouble: later
    CREDENTIALS = "credentials"  # a person must mend the credentials
    IDEMPOTENCY = "idempotency"  # this token was used for another request
    INVALID = "invalid"  # the request is wrong: node class or region
    PASSED = "passed"  # a dry run that would have worked
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Cause:
    """What an error means."""

    code: str
    kind: Kind
    reason: str = LAUNCH_FAILED
    hint: str = ""

    @property
    def is_unfulfillable(self) -> bool:
        """Whether the offering cannot be had now, though the request was right."""
        return self.kind in _UNFULFILLABLE


_UNFULFILLABLE: Final = frozenset({Kind.CAPACITY, Kind.QUOTA, Kind.ADDRESSES})

_REGION_HINT: Final = "check the region, and that this resource was not deleted by hand"
_KMS_HINT: Final = (
    "let the node role and the service-linked role use the KMS key of the volumes, and enable the key"
)
_EXPIRED_HINT: Final = "renew the credentials: the session they belong to has ended"


# Codes that mean something of their own.
_NAMED: Final = (
    Cause("InsufficientInstanceCapacity", Kind.CAPACITY, hint="AWS has none left there just now"),
    Cause("InsufficientCapacity", Kind.CAPACITY),
    Cause("InsufficientHostCapacity", Kind.CAPACITY),
    Cause("InsufficientReservedInstanceCapacity", Kind.CAPACITY),
    Cause("UnfulfillableCapacity", Kind.CAPACITY),
    Cause("Unsupported", Kind.CAPACITY, hint="the type is not sold in that zone"),
    Cause("ReservationCapacityExceeded", Kind.CAPACITY, hint="the capacity reservation is used up"),
    Cause("CapacityReservationExceeded", Kind.CAPACITY, hint="the capacity reservation is used up"),
    Cause(
        "MaxSpotInstanceCountExceeded",
        Kind.QUOTA,
        "SpotQuotaExceeded",
        "ask AWS to raise the quota on running spot instances (Service Quotas, EC2)",
    ),
    Cause(
        "VcpuLimitExceeded",
        Kind.QUOTA,
        "VCPULimitExceeded",
        "ask AWS to raise the vCPU quota of this instance family (Service Quotas, EC2)",
    ),
    Cause(
        "InstanceLimitExceeded",
        Kind.QUOTA,
        "VCPULimitExceeded",
        "ask AWS to raise the quota on running instances (Service Quotas, EC2)",
    ),
    Cause(
        "MaxFleetCountExceeded",
        Kind.QUOTA,
        "FleetQuotaExceeded",
        "ask AWS to raise the quota on fleets (Service Quotas, EC2 Fleet)",
    ),
    Cause(
        "InsufficientFreeAddressesInSubnet",
        Kind.ADDRESSES,
        "InsufficientFreeAddressesInSubnet",
        "add a larger subnet to the node class, or free addresses",
    ),
    Cause(
        SLR_DENIED,
        Kind.PERMISSION,
        "SpotSLRCreationFailed",
        "run once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    Cause("UnauthorizedOperation", Kind.PERMISSION, "Unauthorized"),
    Cause("AccessDenied", Kind.PERMISSION, "Unauthorized"),
    Cause("AccessDeniedException", Kind.PERMISSION, "Unauthorized"),
    Cause(
        "OperationNotPermitted",
        Kind.PERMISSION,
        "OperationNotPermitted",
        "the instance may be protected: aws ec2 modify-instance-attribute --no-disable-api-termination",
    ),
    Cause("OptInRequired", Kind.PERMISSION, "Unauthorized", "subscribe to the image in the AWS Marketplace"),
    Cause(
        "AuthFailure",
        Kind.CREDENTIALS,
        "Unauthorized",
        "AWS does not know these credentials in this region: check region, key and clock",
    ),
    Cause("InvalidClientTokenId", Kind.CREDENTIALS, "Unauthorized", "the access key does not exist"),
    Cause("UnrecognizedClientException", Kind.CREDENTIALS, "Unauthorized", "the access key does not exist"),
    Cause(
        "SignatureDoesNotMatch",
        Kind.CREDENTIALS,
        "Unauthorized",
        "the secret key is wrong, or the clock is off",
    ),
    Cause("ExpiredToken", Kind.CREDENTIALS, "Unauthorized", _EXPIRED_HINT),
    Cause("ExpiredTokenException", Kind.CREDENTIALS, "Unauthorized", _EXPIRED_HINT),
    Cause("RequestExpired", Kind.CREDENTIALS, "Unauthorized", "the clock of this machine is off"),
    Cause(
        "PendingVerification",
        Kind.PERMISSION,
        "AccountPendingVerification",
        "AWS is still verifying the account; this ends by itself within hours",
    ),
    Cause("InvalidAMIID.NotFound", Kind.INVALID, "AMINotFound", "the image was deregistered or is private"),
    Cause("InvalidAMIID.Unavailable", Kind.INVALID, "AMINotFound", "the image was deregistered"),
    Cause(
        "InvalidAMIID.Malformed",
        Kind.INVALID,
        "InvalidAMIID",
        "an image id looks like ami-0123456789abcdef0",
    ),
    Cause(
        "InvalidParameterCombination",
        Kind.INVALID,
        hint="two settings of the node class exclude each other for this instance type",
    ),
    Cause("InvalidParameterValue", Kind.INVALID),
    Cause("InvalidParameter", Kind.INVALID),
    Cause("ValidationError", Kind.INVALID),
    Cause("ValidationException", Kind.INVALID),
    Cause("MissingParameter", Kind.INVALID),
    Cause("InvalidRequest", Kind.INVALID),
    Cause(PARAMETERS_REFUSED, Kind.INVALID),
    Cause(
        "UserData.LimitExceeded",
        Kind.INVALID,
        "UserDataSizeLimitExceeded",
        "shorten spec.userData: 16 KiB at most",
    ),
    Cause(
        "InvalidUserData.Malformed",
        Kind.INVALID,
        "UserDataSizeLimitExceeded",
        "shorten spec.userData: 16 KiB at most",
    ),
    Cause(
        "InvalidIamInstanceProfileArn.Malformed",
        Kind.INVALID,
        "InstanceProfileNameInvalid",
        "check spec.instanceProfile: the name alone, without path",
    ),
    Cause("IdempotentParameterMismatch", Kind.IDEMPOTENCY),
    Cause("InvalidClientToken", Kind.IDEMPOTENCY),
    Cause(DRY_RUN_PASSED, Kind.PASSED),
)

_KMS: Final = (
    "InvalidKMSKey.InvalidState",
    "InvalidKMSKey.NotFound",
    "Client.InvalidKMSKey.InvalidState",
    # What the state of an instance says that could not decrypt its volumes.
    "Client.InternalError",
    "KMSInvalidStateException",
)
_TEMPLATE_MISSING: Final = ("InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound")
_NOT_FOUND: Final = (
    "InvalidInstanceID.NotFound",
    "InvalidSubnetID.NotFound",
    "InvalidGroup.NotFound",
    "InvalidSnapshot.NotFound",
    "InvalidCapacityReservationId.NotFound",
    "InvalidPlacementGroup.Unknown",
    "NoSuchEntity",
    "ParameterNotFound",
    "ResourceNotFoundException",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
)
_ALREADY_EXISTS: Final = ("InvalidLaunchTemplateName.AlreadyExistsException", "EntityAlreadyExists")
_INTERNAL: Final = (
    "InternalError",
    "InternalFailure",
    "ServiceUnavailable",
    "Unavailable",
    "InternalServiceError",
)
_THROTTLES: Final = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "SlowDown",
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "PriorRequestNotComplete",
)
_CAUSES: Final = (
    *_NAMED,
    *(Cause(code, Kind.KMS, "KMSKeyUnusable", _KMS_HINT) for code in _KMS),
    *(Cause(code, Kind.TEMPLATE_MISSING, "LaunchTemplateNotFound") for code in _TEMPLATE_MISSING),
    *(Cause(code, Kind.NOT_FOUND, hint=_REGION_HINT) for code in _NOT_FOUND),
    *(Cause(code, Kind.ALREADY_EXISTS) for code in _ALREADY_EXISTS),
    *(Cause(code, Kind.THROTTLE, "RequestLimitExceeded") for code in _THROTTLES),
    *(Cause(code, Kind.INTERNAL, "InternalError") for code in _INTERNAL),
)
_TABLE: Final[Mapping[str, Cause]] = MappingProxyType({cause.code: cause for cause in _CAUSES})

# What AWS tells only in the message: pattern, kind (None keeps the code's own), reason, hint.
_MESSAGES: Final = (
    (
        re.compile(r"not authorized for images", re.IGNORECASE),
        Kind.PERMISSION,
        "AMIAuthorizationFailure",
        "ask the owner of the image to share it with this account",
    ),
    (
        re.compile(r"security group .* and subnet .* belong to different networks", re.IGNORECASE),
        Kind.INVALID,
        "SecurityGroupSubnetVPCMismatch",
        "select security groups and subnets of one VPC in the node class",
    ),
    (
        re.compile(r"invalid iam instance profile name", re.IGNORECASE),
        Kind.INVALID,
        "InstanceProfileNameInvalid",
        "the instance profile does not exist, or was made seconds ago and is not known everywhere yet",
    ),
    (
        re.compile(r"user data is limited to|userdata .*(limit|too (long|large))", re.IGNORECASE),
        Kind.INVALID,
        "UserDataSizeLimitExceeded",
        "shorten spec.userData: 16 KiB at most",
    ),
    (
        re.compile(r"not eligible for free tier", re.IGNORECASE),
        Kind.INVALID,
        "FreeTierIneligible",
        "the account's free plan excludes this type: upgrade the plan, or name eligible types in the NodePool",
    ),
    (
        re.compile(r"pending verification", re.IGNORECASE),
        Kind.PERMISSION,
        "AccountPendingVerification",
        "AWS is still verifying the account; this ends by itself within hours",
    ),
    (
        re.compile(r"\bkms\b.*(key|denied|state)", re.IGNORECASE),
        Kind.KMS,
        "KMSKeyUnusable",
        _KMS_HINT,
    ),
)

_DENIED: Final = re.compile(
    r"(?:User|Principal): (?P<who>\S+) is not authorized to perform: (?P<action>[\w-]+:\w+)"
    r"(?: on resource: (?P<resource>\S+))?"
)


def classify(code: str, message: str = "") -> Cause:
    """Return what an error means, from its code and, where that is not enough, its message."""
    known = _TABLE.get(code, Cause(code, Kind.OTHER))
    if known.is_unfulfillable or known.kind in {Kind.THROTTLE, Kind.TEMPLATE_MISSING, Kind.PASSED}:
        return known
    if code in {"LimitExceeded", "LimitExceededException"}:
        return Cause(code, Kind.QUOTA, hint="ask AWS to raise the quota that the message names")
    for pattern, kind, reason, hint in _MESSAGES:
        if code != SLR_DENIED and pattern.search(message):
            return Cause(code, kind, reason, hint)
    if known.kind is Kind.PERMISSION and not known.hint:
        return Cause(code, known.kind, known.reason, _permission_hint(message))
    return known


def _permission_hint(message: str) -> str:
    denied = _DENIED.search(message)
    if denied is None:
        if "Encoded authorization failure message" in message:
            return (
                "the missing permission is encoded: decode it with aws sts decode-authorization-message,"
                " which needs a permission of its own"
            )
        return "compare the controller's policy with the calls that it makes"
    where = f" on {denied['resource']}" if denied["resource"] else ""
    return f"allow {denied['action']}{where} in the policy of {denied['who']}"


def is_throttle(code: str) -> bool:
    """Return whether AWS only asks us to be slower."""
    return classify(code).kind is Kind.THROTTLE


def is_not_found(code: str) -> bool:
    """Return whether what was asked for does not exist, launch templates included."""
    return classify(code).kind in {Kind.NOT_FOUND, Kind.TEMPLATE_MISSING}


def is_already_there(code: str) -> bool:
    """Return whether what was to be made exists."""
    return classify(code).kind is Kind.ALREADY_EXISTS


def is_template_missing(code: str) -> bool:
    """Return whether EC2 does not know the launch template (yet, or any more)."""
    return classify(code).kind is Kind.TEMPLATE_MISSING
