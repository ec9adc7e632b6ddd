"""Whether an input record is in a committed step, by its place or by a token, before and after anything is restarted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import kcontrol
from tests.contract.http.conftest import Api, Run

P = "/v1/pipelines/p/completion"


def test_a_record_is_complete_once_its_step_is_committed(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(7, 1)
        await api.seen(0, steps=1)
        token = kcontrol.completion_token(*(SimpleNamespace(topic="input", partition=p, offset=o) for p, o in ((0, 6), (1, 1))))
        answer = await api.get(P, token=token)
        assert answer["complete"] is False
        assert [(one["state"], one["step"]) for one in answer["records"]] == [("committed", 1), ("waiting", None)]
        waiting = asyncio.create_task(api.get(P, token=token, wait_s=20))
        await api.told.step(7, 2)
        assert (await waiting)["complete"] is True
        async with api.another() as other:
            await other.seen(0, steps=2)
            again = await other.get(P, token=token)
            assert [one["step"] for one in again["records"]] == [1, 2]
            assert (await other.get(P, topic="input", partition=1, offset=1))["complete"] is True

    run(scenario)


def test_a_record_of_a_step_that_was_dropped_is_still_complete(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(7, 1)
        await api.told.step(8, 1, forget=("step/1",))
        await api.seen(0, steps=2)
        answer = await api.get(P, topic="input", partition=0, offset=5)
        assert (answer["complete"], answer["records"][0]["step"]) == (True, None)

    run(scenario)


def test_what_the_pipeline_never_reads_is_said(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        assert (await api.get(P, topic="input", partition=0, offset=4))["records"][0]["state"] == "not read"
        assert "its inputs read input" in (await api.get(P, 404, topic="else", partition=0, offset=4))["detail"]
        assert "the partitions 0 to 1" in (await api.get(P, 404, topic="input", partition=2, offset=4))["detail"]
        assert "made anew" in (await api.get(P, 404, token="input@T9:0:5"))["detail"]
        assert "give TOPIC:PARTITION:OFFSET" in (await api.get(P, 422, token="input:0"))["detail"]
        assert "give either token" in (await api.get(P, 422, topic="input"))["detail"]

    run(scenario)
