"""Writes: each is a control record, answered with its offset, and what becomes of it can be asked of any
server."""

from __future__ import annotations

import pytest

from kcontrol.core.model import CheckpointAnswer, Desired, DesiredMode, PipelinePhase, Resume
from tests.contract.http.conftest import Api, Run

P = "/v1/pipelines/p"


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("start", DesiredMode.RUNNING),
        ("resume", DesiredMode.RUNNING),
        ("pause", DesiredMode.PAUSED),
        ("stop", DesiredMode.STOPPED),
        ("shutdown", DesiredMode.STOPPED),
    ],
)
def test_what_is_wanted_is_a_record_and_is_done_when_it_is_acknowledged(
    run: Run, path: str, mode: DesiredMode
) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        accepted = await api.post(f"{P}/{path}")
        (written,) = [x for x in await api.told.control.read_to_end() if isinstance(x.record, Desired)]
        assert written.record == Desired("p", mode, accepted["request_id"])
        assert written.offset == accepted["control_offset"]
        pending = await api.get(accepted["outcome"])
        assert (pending["state"], pending["kind"]) == ("pending", mode.value)
        offset = await api.told.status(acknowledged=(accepted["request_id"],))
        done = await api.get(accepted["outcome"], min_control_offset=offset)
        assert done["state"] == "done"
        async with api.another() as other:
            await other.all_read()
            assert (await other.get(accepted["outcome"], min_control_offset=offset))["state"] == "done"

    run(scenario)


def test_an_answer_that_can_not_be_as_of_so_late_an_offset_says_so(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        async with api.another(hasty=True) as other:
            await other.seen(0)
            refused = await other.get(P, 409, min_control_offset=1_000)
        assert "not read up to offset 1000" in refused["detail"]

    run(scenario)


def test_resume_lifts_a_halt(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(await api.told.status(PipelinePhase.HALTED, "no disk"))
        accepted = await api.post(f"{P}/resume")
        records = [x.record for x in await api.told.control.read_to_end()]
        assert [type(one) for one in records[-2:]] == [Resume, Desired]
        assert (await api.get(accepted["outcome"]))["state"] == "pending"

    run(scenario)


def test_a_checkpoint_has_an_outcome(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        first, second = await api.post(f"{P}/checkpoints"), await api.post(f"{P}/checkpoints")
        assert (await api.get(first["outcome"]))["state"] == "superseded"
        assert (await api.get(first["outcome"]))["superseded_by"] == second["request_id"]
        offset = await api.told.status(answers=(CheckpointAnswer(second["request_id"], 9, ""),))
        done = await api.get(second["outcome"], min_control_offset=offset)
        assert (done["state"], done["step"]) == ("done", 9)
        third = await api.post(f"{P}/checkpoints")
        offset = await api.told.status(
            answers=(CheckpointAnswer(third["request_id"], 0, "node 0: disk full"),)
        )
        failed = await api.get(third["outcome"], min_control_offset=offset)
        assert (failed["state"], failed["error"]) == ("failed", "node 0: disk full")
        assert "no request" in (await api.get(f"{P}/requests/unknown", 404))["detail"]

    run(scenario)


def test_a_checkpoint_is_refused_while_the_pipeline_is_stopped_and_not_while_it_is_paused(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(await api.told.status(PipelinePhase.STOPPED))
        refused = await api.post(f"{P}/checkpoints", 409)
        assert "is stopped" in refused["detail"]
        await api.seen(await api.told.status(PipelinePhase.PAUSED))
        assert (await api.post(f"{P}/checkpoints"))["request_id"]

    run(scenario)


def test_requests_to_a_pipeline_that_is_not_there_write_nothing(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.all_read()
        await api.post(f"{P}/pause", 404)
        assert await api.told.control.read_to_end() == []

    run(scenario)
