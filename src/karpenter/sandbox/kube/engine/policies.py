# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies: what CEL expressions of bound policies say of an object before it is stored.

Creations and updates are judged, of objects and of their status; deletions are not. Expressions see ``object``,
``oldObject``, ``request`` and ``variables``. A policy with parameters is one that cannot be evaluated: its
failurePolicy decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import cel

from karpenter.api.schema.cel import EvaluationError, compile_expression
from karpenter.api.schema.structural import SchemaError
from karpenter.sandbox.kube.engine.calls import Call, Options, Target
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.storage.selecting import matches_labels
from karpenter.sandbox.kube.storage.store import Store

__all__ = ["check_policies"]

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS: Final = f"{_GROUP}/validatingadmissionpolicybindings"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}

Wire = Mapping[str, Any]


def check_policies(
    store: Store,
    resource: Resource,
    target: Target,
    new: Wire,
    old: Wire | None,
    options: Options,
    call: Call,
) -> None:
    """Judge an object that is about to be stored by every bound policy that is for it.

    Args:
        store: Where policies and their bindings are.
        resource: The object's kind.
        target: What is written: the object or its status.
        new: The object as it would be stored.
        old: The object as it is stored; None for a new one.
        options: Of the write.
        call: The request, which takes warnings.

    Raises:
        ApiError: A policy denies it.
    """
    # No kind of this group is judged: a policy could otherwise keep itself from being changed.
    if resource.group == _GROUP:
        return
    for stored in store.items(_BINDINGS):
        binding = stored.obj
        policy = store.get(_POLICIES, "", binding["spec"].get("policyName", ""))
        if policy is None:
            continue
        judgement = _Judgement(store, resource, target, new, old, options, call)
        constraints = (policy.obj["spec"].get("matchConstraints"), binding["spec"].get("matchResources"))
        if all(judgement.is_meant(each) for each in constraints if each):
            for failed in judgement.failures(
                policy.obj["spec"], has_params=bool(binding["spec"].get("paramRef"))
            ):
                _act(policy.obj, binding, failed, judgement)


class _Judgement:
    """One write before one policy."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        target: Target,
        new: Wire,
        old: Wire | None,
        options: Options,
        call: Call,
    ) -> None:
        self.resource = resource
        self.target = target
        self.new = new
        self.call = call
        self.operation = "CREATE" if old is None else "UPDATE"
        self._store = store
        self._variables: dict[str, Any] = {
            "object": dict(new),
            "oldObject": None if old is None else dict(old),
            "request": self._request(options),
            "variables": {},
        }

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.new["metadata"].get("name", ""))

    def is_meant(self, match: Wire) -> bool:
        """Return whether a policy or binding is for this write, by its rules and selectors."""
        rules = match.get("resourceRules")
        if rules is not None and not any(map(self._is_ruled, rules)):
            return False
        if any(map(self._is_ruled, match.get("excludeResourceRules") or ())):
            return False
        labels = self.new["metadata"].get("labels") or {}
        if match.get("objectSelector") and not matches_labels(match["objectSelector"], labels):
            return False
        selector = match.get("namespaceSelector")
        if not selector or not self.target.namespace:
            return True
        namespace = self._store.get("/namespaces", "", self.target.namespace)
        found = namespace.obj["metadata"].get("labels") or {} if namespace else {}
        return matches_labels(selector, found)

    def failures(self, spec: Wire, *, has_params: bool) -> Iterator[Wire]:
        """Yield the validations of a policy that fail, with their messages.

        What cannot be evaluated fails too, unless the policy says to ignore it.
        """
        unevaluated: list[Wire] = []
        try:
            asked = self._asked(spec, has_params=has_params)
        except EvaluationError as error:
            asked, unevaluated = (), [{"message": str(error)}]
        for each in asked:
            try:
                passed = self._value(each["expression"]) is True
            except EvaluationError as error:
                told = f"expression '{each['expression']}' resulted in error: {error}"
                unevaluated.append({**each, "message": told})
                continue
            if not passed:
                yield {**each, "message": self._message(each)}
        if spec.get("failurePolicy", "Fail") == "Fail":
            yield from unevaluated

    def _asked(self, spec: Wire, *, has_params: bool) -> Iterable[Wire]:
        """Return the validations of a policy that are asked about this write, once its variables are known."""
        if has_params:
            raise EvaluationError("the sandbox gives policies no parameters")
        for each in spec.get("variables") or ():
            self._variables["variables"][each["name"]] = self._value(each["expression"])
        conditions = spec.get("matchConditions") or ()
        if all(self._value(each["expression"]) is True for each in conditions):
            return spec.get("validations") or ()
        return ()

    def _message(self, validation: Wire) -> str:
        spoken = validation.get("messageExpression")
        if spoken:
            try:
                return str(self._value(spoken))
            except EvaluationError:
                pass
        return str(validation.get("message") or f"failed expression: {validation['expression']}")

    def _value(self, source: str) -> Any:
        try:
            expression = compile_expression(source)
        except SchemaError as error:
            raise EvaluationError(str(error)) from error
        return expression.evaluate(cel.Context(dict(self._variables), dict(expression.functions)))

    def _is_ruled(self, rule: Wire) -> bool:
        plural, sub = self.resource.plural, self.target.subresource
        names = (f"{plural}/{sub}", f"{plural}/*", f"*/{sub}") if sub else (plural, "*")
        scope = rule.get("scope", "*")
        return (
            _any_of(rule.get("operations"), (self.operation, "*"))
            and _any_of(rule.get("apiGroups"), (self.resource.group, "*"))
            and _any_of(rule.get("apiVersions"), (self.resource.version, "*"))
            and _any_of(rule.get("resources"), (*names, "*/*"))
            and scope in ("*", "Namespaced" if self.resource.namespaced else "Cluster")
            and (not rule.get("resourceNames") or self.name in rule["resourceNames"])
        )

    def _request(self, options: Options) -> dict[str, Any]:
        resource, user = self.resource, self.call.user
        return {
            "operation": self.operation,
            "name": self.name,
            "namespace": self.target.namespace,
            "subResource": self.target.subresource,
            "dryRun": options.dry_run,
            "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "userInfo": {"username": user.name, "groups": list(user.groups), "uid": user.uid},
        }


def _any_of(listed: Iterable[str] | None, wanted: Iterable[str]) -> bool:
    return bool(set(listed or ()) & set(wanted))


def _act(policy: Wire, binding: Wire, failed: Wire, judgement: _Judgement) -> None:
    """Deny the write or warn of it, as the binding says."""
    names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
    actions = binding["spec"].get("validationActions") or ()
    if "Warn" in actions:
        judgement.call.warnings.append(
            f"Validation failed for ValidatingAdmissionPolicy {names}: {failed['message']}"
        )
    if "Deny" in actions:
        resource = judgement.resource
        error = ApiError.forbidden(
            resource.group,
            resource.plural,
            judgement.name,
            f"ValidatingAdmissionPolicy {names} denied request: {failed['message']}",
        )
        error.reason = failed.get("reason") or "Invalid"
        error.code = _CODES.get(error.reason, 422)
        raise error
