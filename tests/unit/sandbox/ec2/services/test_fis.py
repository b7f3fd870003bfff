# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front.documents import write
from karpenter.sandbox.ec2.front.schema import service
from karpenter.sandbox.ec2.world import World
from tests.unit.sandbox.ec2.calling import a_world, ask

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "fis.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
SPOT = "aws:ec2:send-spot-instance-interruptions"


@pytest.fixture
def world() -> World:
    made = a_world()
    ask(made, "iam", "CreateRole", RoleName="experimenter", AssumeRolePolicyDocument=TRUST)
    return made


def fis(world: World, operation: str, **parameters: Any) -> Any:
    """Calls FIS and checks that its answer can be written."""
    answer = ask(world, "fis", operation, **parameters)
    output = service("fis").operations[operation].output
    assert output
    write(service("fis"), output, answer)
    return answer


def launch(world: World, market: str = "spot") -> str:
    image = next(each.id for each in world.ec2.images.values() if each.architecture == "x86_64")
    options = {"InstanceMarketOptions": {"MarketType": "spot"}} if market == "spot" else {}
    made = world.ec2.call(
        "RunInstances", ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, **options
    )
    world.advance(10)
    return str(made["Instances"][0]["InstanceId"])


def state(world: World, instance: str) -> str:
    world.settle()
    return world.ec2.instances[instance].state


def template(world: World, *instances: str, **changed: Any) -> dict[str, Any]:
    """Gives the parameters of a template that interrupts spot instances after two minutes."""
    return {
        "clientToken": "a token",
        "description": "interrupt",
        "stopConditions": [{"source": "none"}],
        "roleArn": "arn:aws:iam::123456789012:role/experimenter",
        "targets": {
            "them": {
                "resourceType": "aws:ec2:spot-instance",
                "selectionMode": "ALL",
                "resourceArns": [world.ec2.account.arn(f"instance/{each}") for each in instances],
            }
        },
        "actions": {
            "itn": {
                "actionId": SPOT,
                "parameters": {"durationBeforeInterruption": "PT120S"},
                "targets": {"SpotInstances": "them"},
            }
        },
        **changed,
    }


def start(world: World, parameters: dict[str, Any]) -> Any:
    made = fis(world, "CreateExperimentTemplate", **parameters)["experimentTemplate"]
    started = fis(world, "StartExperiment", clientToken="another", experimentTemplateId=made["id"])
    return started["experiment"]


def on_instances(world: World, action: str, *instances: str) -> dict[str, Any]:
    """Gives the parameters of a template whose only action ends instances."""
    parameters = template(world, *instances)
    parameters["targets"]["them"]["resourceType"] = "aws:ec2:instance"
    parameters["actions"] = {"end": {"actionId": action, "targets": {"Instances": "them"}}}
    return parameters


def test_an_experiment_warns_spot_instances_and_ends_them_two_minutes_later(world: World) -> None:
    instance = launch(world)

    experiment = start(world, template(world, instance))
    messages = [json.loads(each.body) for each in world.sqs.by_name["sandbox"].messages.values()]
    world.advance(119)
    before = state(world, instance)
    world.advance(1)

    kinds = [each["detail-type"] for each in messages]
    assert "EC2 Instance Rebalance Recommendation" in kinds
    assert "EC2 Spot Instance Interruption Warning" in kinds
    assert (before, state(world, instance)) == ("running", "shutting-down")
    assert experiment["state"]["status"] == "running"
    done = fis(world, "GetExperiment", id=experiment["id"])["experiment"]
    assert done["state"]["status"] == "completed"
    assert done["actions"]["itn"]["state"]["status"] == "completed"


def test_the_notice_comes_two_minutes_before_a_later_interruption(world: World) -> None:
    instance = launch(world)
    parameters = template(world, instance)
    parameters["actions"]["itn"]["parameters"]["durationBeforeInterruption"] = "PT5M"

    start(world, parameters)

    world.advance(299)
    assert state(world, instance) == "running"
    world.advance(1)
    assert state(world, instance) == "shutting-down"


def test_an_experiment_may_stop_or_terminate_instances(world: World) -> None:
    stopped, ended = launch(world, "on-demand"), launch(world, "on-demand")

    start(world, on_instances(world, "aws:ec2:stop-instances", stopped))
    parameters = on_instances(world, "aws:ec2:terminate-instances", ended)
    made = fis(world, "CreateExperimentTemplate", **{**parameters, "clientToken": "second"})
    fis(world, "StartExperiment", clientToken="third", experimentTemplateId=made["experimentTemplate"]["id"])

    assert (state(world, stopped), state(world, ended)) == ("stopping", "shutting-down")


def test_actions_wait_for_those_they_start_after_and_a_stopped_experiment_begins_no_more(
    world: World,
) -> None:
    instance = launch(world, "on-demand")
    parameters = on_instances(world, "aws:ec2:terminate-instances", instance)
    parameters["actions"]["first"] = {"actionId": "aws:fis:wait", "parameters": {"duration": "PT1M"}}
    parameters["actions"]["end"]["startAfter"] = ["first"]

    experiment = start(world, parameters)
    world.advance(30)
    halfway = fis(world, "GetExperiment", id=experiment["id"])["experiment"]
    stopped = fis(world, "StopExperiment", id=experiment["id"])["experiment"]
    world.advance(60)

    assert halfway["actions"]["end"]["state"]["status"] == "pending"
    assert stopped["state"]["status"] == "stopped"
    assert stopped["actions"]["end"]["state"]["status"] == "cancelled"
    assert state(world, instance) == "running"


def test_targets_are_chosen_by_tags_filters_and_count(world: World) -> None:
    first, second = launch(world), launch(world)
    world.ec2.call("CreateTags", Resources=[first, second], Tags=[{"Key": "team", "Value": "a"}])
    parameters = template(world)
    parameters["targets"]["them"] = {
        "resourceType": "aws:ec2:spot-instance",
        "selectionMode": "COUNT(1)",
        "resourceTags": {"team": "a"},
        "filters": [{"path": "State.Name", "values": ["running"]}],
    }

    start(world, parameters)
    world.advance(120)

    assert (state(world, first), state(world, second)) == ("shutting-down", "running")


def test_an_experiment_without_targets_fails(world: World) -> None:
    on_demand = launch(world, "on-demand")

    experiment = start(world, template(world, on_demand))

    assert experiment["state"]["status"] == "failed"
    assert "them" in experiment["state"]["reason"]


def test_the_same_token_makes_nothing_twice(world: World) -> None:
    instance = launch(world)

    first, second = (start(world, template(world, instance)) for _ in range(2))

    assert first["id"] == second["id"]
    assert len(fis(world, "ListExperimentTemplates")["experimentTemplates"]) == 1
    assert len(fis(world, "ListExperiments")["experiments"]) == 1


def test_a_deleted_template_is_gone_and_its_experiment_is_not(world: World) -> None:
    experiment = start(world, template(world, launch(world)))
    identity = experiment["experimentTemplateId"]

    fis(world, "DeleteExperimentTemplate", id=identity)

    for operation in ("GetExperimentTemplate", "DeleteExperimentTemplate"):
        with pytest.raises(ModelError) as refused:
            ask(world, "fis", operation, id=identity)
        assert refused.value.code == "ResourceNotFoundException"
    assert fis(world, "GetExperiment", id=experiment["id"])["experiment"]["state"]["status"] == "running"


def test_templates_that_fis_refuses(world: World) -> None:
    instance = launch(world)

    def code(**changed: Any) -> str:
        with pytest.raises(ModelError) as refused:
            ask(world, "fis", "CreateExperimentTemplate", **template(world, instance, **changed))
        return refused.value.code

    def target(**changed: Any) -> dict[str, Any]:
        return {"them": {**template(world, instance)["targets"]["them"], **changed}}

    def action(**changed: Any) -> dict[str, Any]:
        return {"itn": {**template(world, instance)["actions"]["itn"], **changed}}

    assert code(roleArn="arn:aws:iam::123456789012:role/KarpenterNodeRole-sandbox") == "ValidationException"
    assert code(targets=target(selectionMode="SOME")) == "ValidationException"
    assert code(targets=target(resourceArns=["arn:aws:ec2:x:1:instance/i-0"] * 6)) == "ValidationException"
    assert code(targets=target(resourceType="aws:ec2:instance")) == "ValidationException"
    assert code(targets=target(resourceArns=[])) == "ValidationException"
    assert code(targets={}) == "ValidationException"
    assert code(actions=action(actionId="aws:ec2:reboot-instances")) == "ValidationException"
    assert code(actions=action(startAfter=["itn"])) == "ValidationException"
    for duration in ("PT1M", "PT16M", "two minutes", "PT"):
        changed = action(parameters={"durationBeforeInterruption": duration})
        assert code(actions=changed) == "ValidationException", duration
