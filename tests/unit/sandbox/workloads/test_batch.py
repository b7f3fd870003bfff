# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.kit.cron import CronError
from karpenter.sandbox.workloads.cronjobs import CronJobs
from karpenter.sandbox.workloads.jobs import Jobs
from karpenter.sandbox.workloads.keda import ScaledObjects, cron_wish, install_definition
from karpenter.sandbox.workloads.resources import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    POD,
    SCALED_OBJECT,
    Wire,
    condition,
)
from tests.unit.sandbox.workloads.fakeserver import Stage


def _job(**spec: Any) -> Wire:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


async def test_a_job_runs_so_many_at_a_time_until_enough_have_succeeded() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world))

        await stage.make(JOB, _job(completions=3, parallelism=2))
        assert len(stage.all(POD)) == 2
        await stage.run_pods("Succeeded")
        await stage.run_pods("Succeeded")

        status = stage.get(JOB, "j")["status"]
        assert (status["succeeded"], status["active"]) == (3, 0)
        assert {each["type"] for each in status["conditions"]} == {"SuccessCriteriaMet", "Complete"}
        assert status["completionTime"]
        assert "Completed" in stage.reasons("j")


async def test_a_job_gives_up_after_its_backoff_limit_and_waits_longer_each_time() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world))
        await stage.make(JOB, _job(completions=1, backoffLimit=1))

        await stage.run_pods("Failed")
        assert len(stage.all(POD)) == 1
        await stage.pass_time(11)
        assert len(stage.all(POD)) == 2
        await stage.run_pods("Failed")

        failed = condition(stage.get(JOB, "j"), "Failed")
        assert failed is not None
        assert failed["reason"] == "BackoffLimitExceeded"


async def test_a_finished_job_goes_after_its_time_to_live() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world))
        await stage.make(JOB, _job(completions=1, ttlSecondsAfterFinished=30))
        await stage.run_pods("Succeeded")

        await stage.pass_time(29)
        assert "deletionTimestamp" not in stage.get(JOB, "j")["metadata"]
        await stage.pass_time(2)

        assert stage.get(JOB, "j")["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_job_past_its_deadline_has_failed_and_its_pods_are_deleted() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world))
        await stage.make(JOB, _job(completions=1, activeDeadlineSeconds=60))
        await stage.run_pods()

        await stage.pass_time(62)
        await stage.run_pods()
        await stage.pass_time(1)

        failed = condition(stage.get(JOB, "j"), "Failed")
        assert failed is not None
        assert failed["reason"] == "DeadlineExceeded"
        assert stage.all(POD) == []


async def test_an_indexed_job_numbers_its_pods_and_retries_the_number_that_failed() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world))
        await stage.make(JOB, _job(completions=3, parallelism=3, completionMode="Indexed"))
        names = [each["metadata"]["name"] for each in stage.all(POD)]
        await stage.run_pods("Failed", only=names[1])
        await stage.run_pods("Succeeded")

        assert stage.get(JOB, "j")["status"]["completedIndexes"] == "0,2"
        await stage.pass_time(15)
        await stage.run_pods("Succeeded")

        assert stage.get(JOB, "j")["status"]["completedIndexes"] == "0-2"
        assert condition(stage.get(JOB, "j"), "Complete") is not None


async def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world))
        await stage.make(JOB, _job(completions=1, suspend=True))
        assert stage.all(POD) == []

        await stage.change(JOB, "j", {"spec": {"suspend": False}})

        assert len(stage.all(POD)) == 1
        resumed = condition(stage.get(JOB, "j"), "Suspended")
        assert resumed is not None
        assert resumed["reason"] == "JobResumed"


def _cron(**spec: Any) -> Wire:
    return {
        "metadata": {"name": "tick"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": _job()["spec"]}, **spec},
    }


async def test_a_cron_job_starts_a_job_at_each_moment_and_keeps_the_last_few() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world), CronJobs(stage.world))
        await stage.make(CRON_JOB, _cron(successfulJobsHistoryLimit=2))
        assert stage.all(JOB) == []

        for _ in range(4):
            await stage.pass_time(301)
            await stage.run_pods("Succeeded")

        jobs = [each for each in stage.all(JOB) if "deletionTimestamp" not in each["metadata"]]
        assert len(jobs) == 2
        status = stage.get(CRON_JOB, "tick")["status"]
        assert status["lastScheduleTime"] == "2026-01-01T00:20:00Z"
        assert status["lastSuccessfulTime"]


async def test_a_cron_job_that_forbids_company_skips_while_one_runs() -> None:
    async with Stage() as stage:
        stage.play(Jobs(stage.world), CronJobs(stage.world))
        await stage.make(CRON_JOB, _cron(concurrencyPolicy="Forbid"))

        await stage.pass_time(301)
        await stage.pass_time(300)

        assert len(stage.all(JOB)) == 1
        assert "JobAlreadyActive" in stage.reasons("tick")


async def test_a_schedule_that_is_none_is_told() -> None:
    async with Stage() as stage:
        stage.play(CronJobs(stage.world))

        await stage.make(CRON_JOB, _cron(schedule="every day"))

        assert stage.reasons("tick") == ["UnparseableSchedule"]


_SEOUL = {"timezone": "Asia/Seoul", "start": "03 * * * *", "end": "10 * * * *", "desiredReplicas": "5"}


@pytest.mark.parametrize(
    ("minute", "second", "wish"),
    [(2, 59, None), (3, 0, 5), (9, 59, 5), (10, 0, None), (10, 1, None), (59, 0, None)],
)
def test_a_cron_trigger_is_open_from_its_start_to_its_end(minute: int, second: int, wish: int | None) -> None:
    now = datetime(2026, 1, 1, 12, minute, second, tzinfo=UTC)

    found, change = cron_wish(_SEOUL, now)

    assert found == wish
    assert change is not None
    assert change > now


def test_a_trigger_without_an_end_cannot_be_read() -> None:
    with pytest.raises(KeyError):
        cron_wish({"timezone": "UTC", "start": "0 * * * *"}, datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(CronError):
        cron_wish({**_SEOUL, "start": "99 * * * *"}, datetime(2026, 1, 1, tzinfo=UTC))


async def test_a_scaled_object_has_its_replicas_in_the_window_and_none_after_the_cooldown() -> None:
    async with Stage() as stage:
        stage.play(ScaledObjects(stage.world))
        await install_definition(stage.world)
        await install_definition(stage.world)
        await stage.make(DEPLOYMENT, {"metadata": {"name": "over"}, "spec": {"replicas": 0}})
        triggers = [{"type": "cron", "metadata": _SEOUL}]
        spec = {"scaleTargetRef": {"name": "over"}, "triggers": triggers, "cooldownPeriod": 120}
        await stage.make(SCALED_OBJECT, {"metadata": {"name": "s"}, "spec": spec})
        sizes = []

        for seconds in (179, 2, 418, 3, 100, 31):
            await stage.pass_time(seconds)
            sizes.append(stage.get(DEPLOYMENT, "over")["spec"]["replicas"])

        assert sizes == [0, 5, 5, 1, 1, 0]
        active = condition(stage.get(SCALED_OBJECT, "s"), "Active")
        assert active is not None
        assert active["status"] == "False"


async def test_a_scaled_object_that_cannot_be_followed_says_why() -> None:
    async with Stage() as stage:
        stage.play(ScaledObjects(stage.world))
        triggers: list[Wire] = [{"type": "kafka", "metadata": {}}]
        spec = {"scaleTargetRef": {"name": "nobody"}, "triggers": triggers}

        await stage.make(SCALED_OBJECT, {"metadata": {"name": "s"}, "spec": spec})

        ready = condition(stage.get(SCALED_OBJECT, "s"), "Ready")
        assert ready is not None
        assert ready["status"] == "False"
        assert "kafka" in ready["message"]


async def test_a_paused_scaled_object_leaves_its_target_alone() -> None:
    async with Stage() as stage:
        stage.play(ScaledObjects(stage.world))
        await stage.make(DEPLOYMENT, {"metadata": {"name": "over"}, "spec": {"replicas": 2}})
        metadata = {"name": "s", "annotations": {"autoscaling.keda.sh/paused": "true"}}
        spec = {"scaleTargetRef": {"name": "over"}, "triggers": [{"type": "cron", "metadata": _SEOUL}]}

        await stage.make(SCALED_OBJECT, {"metadata": metadata, "spec": spec})
        await stage.pass_time(240)

        assert stage.get(DEPLOYMENT, "over")["spec"]["replicas"] == 2
        note = {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "7"}}}
        await stage.change(SCALED_OBJECT, "s", note)
        assert stage.get(DEPLOYMENT, "over")["spec"]["replicas"] == 7


async def test_a_scaled_object_whose_target_comes_late_scales_it_at_once() -> None:
    async with Stage() as stage:
        stage.play(ScaledObjects(stage.world))
        await stage.pass_time(240)
        spec = {"scaleTargetRef": {"name": "over"}, "triggers": [{"type": "cron", "metadata": _SEOUL}]}
        await stage.make(SCALED_OBJECT, {"metadata": {"name": "s"}, "spec": spec})

        await stage.make(DEPLOYMENT, {"metadata": {"name": "over"}, "spec": {"replicas": 0}})

        assert stage.get(DEPLOYMENT, "over")["spec"]["replicas"] == 5
