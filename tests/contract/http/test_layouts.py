"""Changes of the layout: asked for, followed, withdrawn, and refused before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.cluster.model import ClusterJob, JobState, TaskSpec
from kcontrol.core.model import CheckpointSpec, LayoutPhase, LayoutRequest, LayoutStatus, PipelinePhase
from tests.contract.http.conftest import Api, Run
from tests.support.http_world import LED

P = "/v1/pipelines/p"
KEPT = replace(
    LED,
    checkpoint=CheckpointSpec("file:///c", 60_000, 2, -1),
)


async def _begun(api: Api) -> None:
    """A pipeline of one node that has made a step."""
    api.told.spec = KEPT
    await api.told.begin()
    await api.told.step(6, 1)
    await api.seen(await api.told.status(), steps=1)


async def _asked(api: Api) -> list[LayoutRequest]:
    return [x.record for x in await api.told.control.read_to_end() if isinstance(x.record, LayoutRequest)]


def _told(request_id: str, phase: LayoutPhase, text: str = "") -> LayoutStatus:
    return LayoutStatus(
        *(request_id, phase, 1),
        step=1,
        moved_shards=2,
        copied_bytes=30,
        total_bytes=90,
        seconds_left=4,
        text=text,
    )


def test_another_process_in_place_of_a_node_is_asked_for_and_shown_until_it_is_given_up(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await _begun(api)
        assert (await api.get(f"{P}/layout"))["layout"] == {
            **{"number": 0, "nodes": 1, "shards": [1]},
            "balance": "",
            "change": None,
        }
        accepted = await api.post(f"{P}/layout", body={"replace": [0], "timeout_ms": 7})
        (written,) = await _asked(api)
        assert written == LayoutRequest("p", accepted["request_id"], 1, 1, 7, (0,))
        pending = await api.get(accepted["outcome"])
        assert (pending["kind"], pending["state"]) == ("layout", "pending")
        assert (await api.get(f"{P}/layout"))["layout"]["change"]["phase"] == "asked"

        copying = _told(written.request_id, LayoutPhase.COPYING, "node 0 copies its state")
        offset = await api.told.status(layout=copying)
        shown = (await api.get(P, min_control_offset=offset))["status"]["layout"]["change"]
        wanted = {"phase": "copying", "moved_shards": 2, "copied_bytes": 30, "total_bytes": 90}
        assert {name: shown[name] for name in wanted} == wanted
        assert (shown["seconds_left"], shown["text"]) == (4, "node 0 copies its state")
        assert (await api.get(accepted["outcome"]))["waits_for"] == "node 0 copies its state"

        given_up = _told(written.request_id, LayoutPhase.GIVEN_UP, "it was not ready within 7 ms")
        offset = await api.told.status(layout=given_up)
        failed = await api.get(accepted["outcome"], min_control_offset=offset)
        assert (failed["state"], failed["error"]) == ("failed", "it was not ready within 7 ms")

    run(scenario)


def test_what_was_asked_for_is_withdrawn(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await _begun(api)
        first = await api.post(f"{P}/layout", body={"replace": [0]})
        second = await api.post(f"{P}/layout/withdraw")
        assert [each.nodes for each in await _asked(api)] == [1, 0]
        outcome = await api.get(first["outcome"])
        assert (outcome["state"], outcome["superseded_by"]) == ("superseded", second["request_id"])
        assert (await api.get(second["outcome"]))["state"] == "pending"
        text = "what was asked for before is withdrawn"
        told = _told(second["request_id"], LayoutPhase.REFUSED, text)
        offset = await api.told.status(layout=told)
        done = await api.get(second["outcome"], min_control_offset=offset)
        assert (done["kind"], done["state"]) == ("withdraw-layout", "done")

    run(scenario)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "say one of nodes, without and replace"),
        ({"nodes": 2, "without": 0}, "say one of nodes, without and replace"),
        ({"nodes": 0}, "greater than or equal to 1"),
        ({"nodes": 2}, "would own none"),
        ({"without": 0}, "needs at least one node"),
        ({"replace": [3]}, "has the nodes 0 to 0"),
    ],
)
def test_what_can_not_be_done_is_refused_and_not_recorded(run: Run, body: dict[str, Any], what: str) -> None:
    async def scenario(api: Api) -> None:
        await _begun(api)
        refused = await api.post(f"{P}/layout", 422, body=body)
        assert what in refused["detail"]
        assert await _asked(api) == []

    run(scenario)


def test_a_pipeline_that_does_not_run_is_not_changed_from_here(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await _begun(api)
        accepted = await api.post(f"{P}/stop")
        await api.seen(
            await api.told.status(PipelinePhase.STOPPED, acknowledged=(accepted["request_id"],)), steps=1
        )
        refused = await api.post(f"{P}/layout", 409, body={"replace": [0]})
        assert "does not run" in refused["detail"]
        assert await _asked(api) == []

    run(scenario)


JOB = ClusterJob("p", 4, 4, 4, "q", "file:p.py", (TaskSpec("nodes", 1, 1),))


def test_what_agents_run_is_changed_by_telling_them_and_not_from_here(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await _begun(api)
        api.jobs["p"] = JOB
        for body in ({"nodes": 2}, {"without": 0}, {"replace": [0]}):
            refused = await api.post(f"{P}/layout", 422, body=body)
            assert "kcontrol layout p --nodes N, which tells them" in refused["detail"]
        assert await _asked(api) == []
        api.jobs["p"] = replace(JOB, kept=1, most=2)
        refused = await api.post(f"{P}/layout/withdraw", 422)
        assert "kcontrol layout p --withdraw" in refused["detail"]
        assert await _asked(api) == []
        api.jobs["p"] = replace(JOB, state=JobState.KILLED, kept=1, most=2)
        await api.post(f"{P}/layout", body={"replace": [0]})
        api.jobs["p"] = JOB
        await api.post(f"{P}/layout/withdraw")
        assert [each.nodes for each in await _asked(api)] == [1, 0], "of whoever runs it, and withdrawn again"

    run(scenario)
