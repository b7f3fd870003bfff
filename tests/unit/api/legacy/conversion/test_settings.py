# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy import convert
from tests.unit.api.legacy.builders import beta_class, node_template


def settings(**data: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "karpenter-global-settings", "namespace": "karpenter"},
        "data": {f"aws.{key}": value for key, value in data.items()},
    }


def test_the_default_profile_of_the_settings_serves_templates_without_one() -> None:
    conversion = convert([node_template(instanceProfile=None), settings(defaultInstanceProfile="p")])

    assert conversion.objects[0]["spec"]["instanceProfile"] == "p"


def test_the_option_wins_over_the_settings() -> None:
    conversion = convert(
        [node_template(instanceProfile=None), settings(defaultInstanceProfile="p")],
        default_instance_profile="q",
    )

    assert conversion.objects[0]["spec"]["instanceProfile"] == "q"


def test_tags_of_the_settings_go_into_each_class_below_its_own() -> None:
    conversion = convert(
        [
            settings(tags='{"team": "a", "env": "b", "karpenter.sh/nodepool": "x"}'),
            node_template(tags={"team": "c"}),
        ]
    )

    assert conversion.objects[1]["spec"]["tags"] == {"team": "c", "env": "b"}


def test_beta_classes_never_had_global_settings() -> None:
    conversion = convert([settings(tags='{"team": "a"}'), beta_class()])

    assert "tags" not in conversion.objects[1]["spec"]


def test_the_settings_pass_through_with_their_new_names() -> None:
    given = settings(clusterName="c", interruptionQueueName="q", unheardOf="x")

    conversion = convert([given])

    assert conversion.objects == (given,)
    (warning,) = conversion.warnings
    assert warning.text == (
        "passed through, but v1 does not read it: aws.clusterName -> settings.clusterName; "
        "aws.interruptionQueueName -> settings.interruptionQueue; aws.unheardOf -> unknown"
    )


@pytest.mark.parametrize("tags", ["{", "[]", "[" * 100_000])
def test_tags_that_are_no_json_object_are_left_out_with_a_warning(tags: str) -> None:
    conversion = convert([settings(tags=tags), node_template()])

    assert "tags" not in conversion.objects[1]["spec"]
    assert "not a JSON object" in conversion.warnings[1].text


@pytest.mark.parametrize("data", [None, "text", {}])
def test_settings_without_data_say_nothing(data: object) -> None:
    given = {**settings(), "data": data}

    conversion = convert([given])

    assert (conversion.objects, conversion.warnings) == ((given,), ())


def test_another_config_map_is_none_of_our_business() -> None:
    others = [{**settings(clusterName="c"), "metadata": {"name": "x"}}, {**settings(), "metadata": "x"}]

    conversion = convert(others)

    assert (conversion.objects, conversion.warnings) == (tuple(others), ())
