# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, cast

from karpenter.cloud.aws.launchtemplates import LaunchSpec
from karpenter.observe import Log
from karpenter.operator.launchlog import LaunchLog


class Lines:
    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def info(self, message: str, **fields: Any) -> None:
        self.said.append((message, fields))


def _spec(image_id: str) -> LaunchSpec:
    return LaunchSpec(image_id=image_id, user_data="", security_group_ids=())


def test_version_and_image_are_told_once_and_every_template_each_time() -> None:
    lines = Lines()
    told = LaunchLog(cast("Log", lines), "1.32", {"ami-1": "/aws/one"}.get)  # type: ignore[arg-type]

    told("a", _spec("ami-1"))
    told("b", _spec("ami-1"))

    assert [message for message, _ in lines.said] == [
        "discovered kubernetes version",
        "discovered ami",
        "created launch template",
        "created launch template",
    ]
    assert lines.said[1][1] == {"ami": "ami-1", "query": "/aws/one"}
    assert lines.said[3][1] == {"ami": "ami-1", "launch-template-name": "b"}
