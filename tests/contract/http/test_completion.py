"""Whether an input record is in a committed step, by its place or by a token, before and after anything is
restarted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

import kcontrol
from kcontrol.cli.wait import _wait
from kcontrol.errors import NotFoundError
from kcontrol.views.completion import parse_token
from kcontrol.views.look_limits import MAX_LOOK_OFFSETS
from tests.contract.http.conftest import DEADLINE_S, Api, Run
from tests.support.transactions import abort_then_commit

P = "/v1/pipelines/p/completion"


def test_a_record_is_complete_once_its_step_is_committed(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(7, 1)
        await api.seen(0, steps=1)
        token = kcontrol.completion_token(
            *(SimpleNamespace(topic="input", partition=p, offset=o) for p, o in ((0, 6), (1, 1)))
        )
        answer = await api.get(P, token=token)
        assert answer["complete"] is False
        assert [(one["state"], one["step"]) for one in answer["records"]] == [
            ("committed", 1),
            ("waiting", None),
        ]
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
        assert (
            "its inputs read input" in (await api.get(P, 404, topic="else", partition=0, offset=4))["detail"]
        )
        assert (
            "the partitions 0 to 1" in (await api.get(P, 404, topic="input", partition=2, offset=4))["detail"]
        )
        assert "recreated" in (await api.get(P, 404, token="input@T9:0:5"))["detail"]
        assert "give TOPIC:PARTITION:OFFSET" in (await api.get(P, 422, token="input:0"))["detail"]
        assert "give either token" in (await api.get(P, 422, topic="input"))["detail"]

    run(scenario)


def test_what_a_step_has_passed_and_not_read_is_told_from_what_it_has(run_on_kafka: Run) -> None:
    """Committed, aborted, a marker, and a record that could not be parsed: over HTTP, and by `kcontrol
    wait`."""

    async def scenario(api: Api) -> None:
        await api.reaches(9, 2)
        topic = api.told.input.topic
        # In partition 1: 2 and 3 aborted, 4 the marker, 5 and 6 records, 7 the marker.
        await asyncio.to_thread(abort_then_commit, api.settings, topic, 1)
        await api.told.begin()
        await api.told.step(9, 6, read={1: 3})
        await api.told.step(9, 8, read={1: 1}, bad=1)
        await api.seen(0, steps=2)

        def token(*offsets: int) -> str:
            return ",".join(f"{topic}:1:{offset}" for offset in offsets)

        answer = await api.get(P, token=token(1, 2, 4, 5, 6))
        states = ["committed", "aborted", "no record", "committed", "bad record"]
        assert [one["state"] for one in answer["records"]] == states
        assert [(one["step"], one["note"]) for one in answer["records"]] == [(1, "")] * 4 + [(2, "")]
        assert answer["complete"] is False
        assert (await api.get(P, token=token(1, 5)))["complete"] is True
        (one,) = await _wait("p", parse_token(token(5)), DEADLINE_S, api.settings, MAX_LOOK_OFFSETS)
        assert (one.state.value, one.step, one.note) == ("committed", 1, "")
        with pytest.raises(
            NotFoundError, match="its producer's transaction was aborted, and it was never read"
        ):
            await _wait("p", parse_token(token(1, 2)), DEADLINE_S, api.settings, MAX_LOOK_OFFSETS)
        with pytest.raises(NotFoundError, match="it could not be parsed, and was left out of its step"):
            await _wait("p", parse_token(token(6)), DEADLINE_S, api.settings, MAX_LOOK_OFFSETS)

    run_on_kafka(scenario)
