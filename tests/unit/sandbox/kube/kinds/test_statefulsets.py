# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.kube.api import Api, container

_SETS = "/apis/apps/v1/namespaces/default/statefulsets"


@pytest.fixture
def api() -> Api:
    return Api()


def _stateful(mounted: str, *, volumes: tuple[str, ...] = ()) -> dict[str, Any]:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = {
        "containers": [container(volumeMounts=[{"name": mounted, "mountPath": "/data"}])],
        "volumes": [{"name": name, "emptyDir": {}} for name in volumes],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": spec},
            "volumeClaimTemplates": [claim],
        },
    }


def test_a_container_may_mount_the_volume_of_a_claim_template(api: Api) -> None:
    made = api.post(_SETS, _stateful("data"))

    [claim] = made["spec"]["volumeClaimTemplates"]
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert "volumes" not in made["spec"]["template"]["spec"]
    assert api.patch(f"{_SETS}/db", {"spec": {"replicas": 2}})[0] == 200


def test_a_volume_of_the_template_gives_way_to_the_claim_of_its_name(api: Api) -> None:
    api.post(_SETS, _stateful("data", volumes=("data", "scratch")))


def test_a_volume_that_neither_has_is_not_found(api: Api) -> None:
    status, told = api.send("POST", _SETS, _stateful("elsewhere"), content_type="application/json")

    assert status == 422
    where = "spec.template.spec.containers[0].volumeMounts[0].name"
    assert told["message"] == f'StatefulSet.apps "db" is invalid: {where}: Not found: "elsewhere"'
