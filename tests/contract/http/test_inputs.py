"""Single inputs: looked at, paused, read again, and taken past offsets, with an outcome for each request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.model import InputDesired, PipelinePhase, SkippedRange, SkipRequest
from tests.contract.http.conftest import Api, Run

P = "/v1/pipelines/p"
IN = f"{P}/inputs/in"


async def look(api: Api) -> Any:
    return (await api.get(IN))["input"]


@pytest.mark.parametrize(("again", "kind"), [("start", "resume-input"), ("resume", "resume-input")])
def test_an_input_is_paused_and_read_again(run: Run, again: str, kind: str) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        paused = await api.post(f"{IN}/pause")
        (written,) = [x for x in await api.told.control.read_to_end() if isinstance(x.record, InputDesired)]
        assert written.record == InputDesired("p", "in", True, paused["request_id"])
        assert written.offset == paused["control_offset"]
        assert ((await look(api))["paused"], (await look(api))["noted"]) == (True, False)
        assert (await api.get(paused["outcome"]))["state"] == "pending"
        seen = await api.told.status(inputs_offset=paused["control_offset"])
        done = await api.get(paused["outcome"], min_control_offset=seen)
        assert (done["state"], done["kind"]) == ("done", "pause-input")
        assert (await look(api))["noted"] is True
        status = (await api.get(P))["status"]["inputs"][0]
        assert (status["paused"], status["noted"]) == (True, True)
        resumed = await api.post(f"{IN}/{again}")
        assert (await look(api))["paused"] is False
        assert (await api.get(resumed["outcome"]))["kind"] == kind
        old = await api.get(paused["outcome"])
        assert (old["state"], old["superseded_by"]) == ("superseded", resumed["request_id"])
        async with api.another() as other:
            await other.all_read()
            assert (await other.get(resumed["outcome"], min_control_offset=resumed["control_offset"]))[
                "state"
            ] == "pending"

    run(scenario)


def test_an_input_that_is_not_there(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        order = {"partition": 0, "to_offset": 8, "by": "me"}
        answers = [
            await api.get(f"{P}/inputs/no", 404),
            await api.post(f"{P}/inputs/no/pause", 404),
            await api.post(f"{P}/inputs/no/skip", 404, order),
        ]
        assert all("it has in" in each["detail"] for each in answers)
        assert not any(
            isinstance(x.record, InputDesired | SkipRequest) for x in await api.told.control.read_to_end()
        )

    run(scenario)


def test_a_skip_goes_from_the_request_to_the_step_that_records_it(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.reaches(9, 0)
        await api.told.begin()
        await api.told.received(7, 0)
        await api.seen(await api.told.status(PipelinePhase.HALTED, "expired"))
        asked = await api.post(f"{IN}/skip", 202, {"partition": 0, "to_offset": 9, "by": "somebody"})
        (waiting,) = (await look(api))["skips"]
        assert (waiting["partition"], waiting["from"], waiting["to"], waiting["by"]) == (0, 5, 9, "somebody")
        assert (await api.get(asked["outcome"]))["state"] == "pending"
        noted = await api.told.status(PipelinePhase.HALTED, inputs_offset=asked["control_offset"])
        not_yet = await api.get(asked["outcome"], min_control_offset=noted)
        assert (not_yet["state"], not_yet["kind"]) == ("pending", "skip")
        assert "ends at offset 7, as far as its node has seen" in not_yet["waits_for"]
        seen = await api.told.received(9, 0)
        in_force = await api.get(asked["outcome"], min_control_offset=seen)
        assert (in_force["state"], in_force["step"]) == ("done", 1)
        passed = SkippedRange(
            "in", api.told.input.topic, api.told.input.topic_id, 0, 5, 9, "somebody", 5, asked["request_id"]
        )
        await api.told.step(11, 1, skipped=(passed,))
        await api.told.step(12, 1)
        await api.seen(0, steps=2)
        committed = await api.get(asked["outcome"])
        assert (committed["state"], committed["step"]) == ("done", 1)
        assert (await look(api))["skips"] == []
        completion = await api.get(f"{P}/completion", topic=api.told.input.topic, partition=0, offset=6)
        assert completion["complete"] is False
        assert [(one["state"], one["step"]) for one in completion["records"]] == [("skipped", 1)]
        missing = await api.get(f"{P}/steps/by-input", 404, input="in", partition=0, offset=6)
        assert "step 1 went past it" in missing["detail"]
        assert (await api.get(f"{P}/steps/by-input", input="in", partition=0, offset=9))["step"]["step"] == 1
        async with api.another() as other:
            await other.seen(0, steps=2)
            assert (
                await other.get(asked["outcome"], min_control_offset=asked["control_offset"])
            ) == committed | {"as_of": (await other.get(P))["as_of"]}

    run(scenario)


def test_a_skip_that_a_step_has_overtaken_has_failed_and_a_newer_one_takes_its_place(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.reaches(9, 9)
        await api.told.begin()
        await api.told.received(9, 9)
        await api.seen(await api.told.status(PipelinePhase.PAUSED))
        first = await api.post(f"{IN}/skip", 202, {"partition": 0, "to_offset": 9, "by": "me"})
        second = await api.post(f"{IN}/skip", 202, {"partition": 0, "to_offset": 8, "by": "me"})
        other = await api.post(f"{IN}/skip", 202, {"partition": 1, "to_offset": 8, "by": "me"})
        replaced = await api.get(first["outcome"])
        assert (replaced["state"], replaced["superseded_by"]) == ("superseded", second["request_id"])
        await api.told.step(6, 1)
        offset = await api.told.status(inputs_offset=other["control_offset"])
        await api.seen(offset, steps=1)
        failed = await api.get(second["outcome"])
        assert failed["state"] == "failed"
        assert "the next one begins at offset 6" in failed["error"]
        # Once its step is dropped, nobody can tell any more.
        await api.told.step(7, 2, forget=("step/1",))
        await api.seen(0, steps=2)
        assert "dropped from the log" in (await api.get(second["outcome"], 404))["detail"]

    run(scenario)


def test_a_skip_that_waits_is_taken_back(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.reaches(9, 9)
        await api.told.begin()
        await api.told.received(9, 9)
        await api.seen(await api.told.status(PipelinePhase.PAUSED))
        await api.post(f"{IN}/skip", 202, {"partition": 0, "to_offset": 9, "by": "me"})
        back = await api.post(f"{IN}/skip", 202, {"partition": 0, "to_offset": 5, "by": "me"})
        assert (await look(api))["skips"] == []
        offset = await api.told.status(PipelinePhase.PAUSED, inputs_offset=back["control_offset"])
        assert (await api.get(back["outcome"], min_control_offset=offset))["state"] == "done"
        await api.told.step(6, 0)
        await api.seen(0, steps=1)
        assert (await api.get(back["outcome"]))["state"] == "done"

    run(scenario)


@pytest.mark.parametrize(
    ("phase", "order", "status", "text"),
    [
        (PipelinePhase.PAUSED, {"to_offset": 4}, 422, "4 lies before it"),
        (PipelinePhase.PAUSED, {"to_offset": 5}, 422, "there is nothing to skip"),
        (PipelinePhase.PAUSED, {"to_offset": 10}, 422, "ends at offset 9; 10 lies beyond it"),
        (PipelinePhase.PAUSED, {"partition": 2}, 404, "has no partition 2"),
        (PipelinePhase.RUNNING, {}, 409, "it is running; first kcontrol pause p"),
        (PipelinePhase.PAUSED, {"by": ""}, 422, "by"),
        (PipelinePhase.PAUSED, {"to": 8}, 422, "to"),
    ],
)
def test_what_can_not_be_skipped_is_refused_and_nothing_is_recorded(
    run: Run, phase: PipelinePhase, order: dict[str, object], status: int, text: str
) -> None:
    async def scenario(api: Api) -> None:
        await api.reaches(9, 9)
        await api.told.begin()
        await api.seen(await api.told.status(phase))
        refused = await api.post(f"{IN}/skip", status, {"partition": 0, "to_offset": 8, "by": "me"} | order)
        assert text in refused["detail"]
        assert not any(isinstance(x.record, SkipRequest) for x in await api.told.control.read_to_end())

    run(scenario)


def test_a_topic_that_was_made_anew_can_not_be_skipped_in(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.reaches(9, 9)
        api.told.reads(replace(api.told.input, topic_id="another"))
        await api.told.begin()
        await api.seen(await api.told.status(PipelinePhase.HALTED))
        refused = await api.post(f"{IN}/skip", 409, {"partition": 0, "to_offset": 8, "by": "me"})
        assert (refused["type"], "recreated" in refused["detail"]) == (
            "urn:kcontrol:problem:input-gone",
            True,
        )

    run(scenario)


def test_a_partition_that_was_added_is_shown_before_and_after_it_is_read(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(await api.told.received(5, 0, 4))
        assert (await look(api))["partitions"][2] == {
            **{"partition": 2, "start": 0, "committed": 0, "received": 4, "end": None, "waiting": 4},
        }
        completion = await api.get(f"{P}/completion", topic=api.told.input.topic, partition=2, offset=3)
        assert completion["records"][0]["state"] == "waiting"
        await api.told.step(5, 0, 4)
        await api.seen(0, steps=1)
        assert (await look(api))["partitions"][2]["committed"] == 4
        completion = await api.get(f"{P}/completion", topic=api.told.input.topic, partition=2, offset=3)
        assert (completion["complete"], completion["records"][0]["step"]) == (True, 1)
        assert (
            "the partitions 0 to 2"
            in (await api.get(f"{P}/completion", 404, topic=api.told.input.topic, partition=3, offset=0))[
                "detail"
            ]
        )

    run(scenario)
