"""Reads: every answer comes from the topics, says as of which offsets, and any server gives the same."""

from __future__ import annotations

from typing import Any

from kcontrol.core.model import (
    Checkpoint,
    CheckpointRequest,
    FailureKind,
    NodePhase,
    PipelinePhase,
    SavedPart,
    Written,
)
from kcontrol.wire.json import to_json
from tests.contract.http.conftest import DEADLINE_S, Api, Run
from tests.support.http_world import LED
from tests.unit.core.made import TOKEN

P = "/v1/pipelines/p"


def test_a_pipeline_as_it_is(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.received(9, 3)
        await api.told.step(7, 1)
        offset = await api.told.status()
        await api.seen(offset, steps=1)
        answer = await api.get(P)
        status = answer["status"]
        assert (status["phase"], status["step"], status["desired"], status["coordinator"]) == (
            "running",
            1,
            "running",
            "host-a:41",
        )
        assert status["inputs"][0]["waiting"] == (9 - 7) + (3 - 1)
        assert status["nodes"][0] | {"silent_ms": 0} == {
            **{
                "node": 0,
                "incarnation": api.told.incarnation,
                "host": "host-b",
                "process_id": 42,
                "listens": "",
            },
            **{"phase": "running", "step": 0, "running": 1, "replaying": 1, "silent_ms": 0},
            **{"error": "", "planning": "", "made_otherwise": ""},
        }
        assert answer["as_of"]["control_offset"] == offset
        assert answer["as_of"]["steps_offset"] >= 0
        async with api.another() as other:
            await other.seen(offset, steps=1)
            again = await other.get(P)
            assert again["as_of"] == answer["as_of"]
            assert again["status"]["step"] == 1

    run(scenario)


def test_list_spec_inputs_and_nodes(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(await api.told.received(9, 0))
        await api.all_read()
        (line,) = (await api.get("/v1/pipelines"))["pipelines"]
        waiting = (line["waiting"], line["waiting_ms"] >= 0, line["step_ms"])
        assert (line["pipeline"], line["phase"], line["step"], waiting) == (
            "p",
            "running",
            0,
            (4, True, None),
        )
        assert line["as_of"] == (await api.get(P))["as_of"]
        assert (await api.get("/v1/pipelines", after="p"))["pipelines"] == []
        assert (await api.get(f"{P}/spec"))["spec"] == to_json(LED)
        (found,) = (await api.get(f"{P}/inputs"))["inputs"]
        assert (found["topic"], found["waiting"]) == ("input", 4)
        assert found["partitions"][0] == {
            "partition": 0,
            "start": 5,
            "committed": 5,
            "received": 9,
            "end": None,
            "waiting": 4,
        }
        assert (await api.get(f"{P}/nodes"))["nodes"][0]["host"] == "host-b"
        assert (await api.get(f"{P}/nodes/0"))["node"]["incarnation"] == api.told.incarnation
        assert "no node 1" in (await api.get(f"{P}/nodes/1", 404))["detail"]
        assert (await api.get("/v1/metadata"))["pipelines"] == 1

    run(scenario)


def test_steps_by_number_and_in_pages(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        made = [await api.told.step(5 + step, step) for step in range(1, 8)]
        await api.seen(0, steps=7)
        assert (await api.get(f"{P}/steps/3"))["step"] == to_json(made[2])
        newest = await api.get(f"{P}/steps", limit=2)
        assert ([one["step"] for one in newest["steps"]], newest["next_from"]) == ([6, 7], None)
        seen, following = [], 1
        while following is not None:
            page = await api.get(f"{P}/steps", **{"from": following, "limit": 3, "to": 7})
            seen += [one["step"] for one in page["steps"]]
            following = page["next_from"]
        assert seen == [1, 2, 3, 4, 5, 6, 7]
        assert "has committed 7" in (await api.get(f"{P}/steps/8", 404))["detail"]
        stats = await api.get(f"{P}/stats")
        assert (stats["steps"], stats["records_in"], stats["reasons"]) == (7, {"in": 14}, {"records": 7})

    run(scenario)


def test_steps_in_brief(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        made = [await api.told.step(5 + step, step, wrote=(step, 2 * step)) for step in range(1, 5)]
        await api.seen(0, steps=4)
        page = await api.get(f"{P}/steps/brief", limit=3)
        assert (page["first"], page["last"], page["next_from"]) == (1, 4, None)
        assert [one["step"] for one in page["steps"]] == [2, 3, 4]
        assert page["steps"][1] == {
            **{
                "step": 3,
                "reason": "records",
                "attempt": 1,
                "records_in": 2,
                "records_out": 3,
                "late_rows": 0,
                "void_since": None,
            },
            **{
                "now_ms": made[2].now_ms,
                "opened_ms": made[2].opened_ms,
                "committed_ms": made[2].committed_ms,
            },
        }
        page = await api.get(f"{P}/steps/brief", **{"from": 1, "limit": 2})
        assert ([one["step"] for one in page["steps"]], page["next_from"]) == ([1, 2], 3)

    run(scenario)


def test_old_steps_are_read_from_the_log_again_and_dropped_ones_are_gone(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        made = [await api.told.step(5 + step, step) for step in range(1, 5)]
        made.append(await api.told.step(10, 5, wrote=(40, 44), forget=("step/1", "step/2")))
        await api.seen(0, steps=5)
        # As if they had been so many that they are not kept in memory any more.
        projection = api.projections.get("p")
        projection.recent.popleft()
        assert (await api.get(f"{P}/steps/3"))["step"] == to_json(made[2])
        page = await api.get(f"{P}/steps")
        assert ([one["step"] for one in page["steps"]], page["first"]) == ([3, 4, 5], 3)
        assert "begins with step 3" in (await api.get(f"{P}/steps/2", 404))["detail"]
        dropped = await api.get(f"{P}/steps/by-input", 404, input="in", partition=1, offset=0)
        assert "dropped from the log, which begins with step 3" in dropped["detail"]

    run(scenario)


def test_which_step_read_or_wrote_an_offset(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(8, 0, wrote=(10, 12))
        await api.told.step(8, 4)
        await api.told.step(9, 4, wrote=(13, 14))
        await api.seen(0, steps=3)

        async def reader(partition: int, offset: int) -> int:
            found = await api.get(f"{P}/steps/by-input", input="in", partition=partition, offset=offset)
            return found["step"]["step"]

        assert [await reader(0, 5), await reader(0, 7), await reader(0, 8), await reader(1, 3)] == [
            1,
            1,
            3,
            2,
        ]
        for offset, why in ((9, "end at offset 9"), (4, "began at offset 5")):
            missing = await api.get(f"{P}/steps/by-input", 404, input="in", partition=0, offset=offset)
            assert why in missing["detail"]
        assert (
            "it has in"
            in (await api.get(f"{P}/steps/by-input", 404, input="no", partition=0, offset=9))["detail"]
        )

        async def writer(offset: int, status: int = 200) -> int:
            found = await api.get(f"{P}/steps/by-output", status, topic="output", partition=0, offset=offset)
            return found["step"]["step"] if status == 200 else 0

        assert [await writer(10), await writer(11), await writer(13)] == [1, 1, 3]
        # Between them lies the marker of a transaction.
        assert [await writer(12, 404), await writer(14, 404)] == [0, 0]

    run(scenario)


def test_a_void_step_says_so_wherever_it_is_looked_at(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(6, 0, wrote=(10, 12))
        await api.told.step(7, 1, wrote=(13, 14))
        made = await api.told.reset(1, 6, 0)
        await api.told.step(7, 1, wrote=(15, 16))
        await api.seen(0, steps=4)

        async def by_output(offset: int) -> Any:
            return await api.get(f"{P}/steps/by-output", topic="output", partition=0, offset=offset)

        since = {"step": 3, "to_step": 1, "by": "ana", "why": "a wrong rate", "at_ms": made.committed_ms}
        for found in (await by_output(13), await api.get(f"{P}/steps/2")):
            assert (found["step"]["step"], found["void_since"]) == (2, since)
        read = await api.get(f"{P}/steps/by-input", input="in", partition=0, offset=6)
        for found in (await by_output(10), await by_output(15), read, await api.get(f"{P}/steps/3")):
            assert found["void_since"] is None
        assert read["step"]["step"] == 4
        assert (await api.get(f"{P}/steps"))["void"] == [2]
        lines = (await api.get(f"{P}/steps/brief"))["steps"]
        assert [line["void_since"] for line in lines] == [None, 3, None, None]

    run(scenario)


def test_a_halt_is_shown_with_its_root_cause(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        why = (
            "input 'in', partition 0, offset 5: can't be parsed; correct the producer, then resume the "
            "pipeline"
        )
        failed = Written(
            "p", 0, api.told.incarnation, 1, TOKEN, (), (), (), False, FailureKind.QUERY, "bad value"
        )
        await api.told.say(failed)
        await api.told.node(NodePhase.FAILED, error="the query ended")
        await api.seen(await api.told.status(PipelinePhase.HALTED, why))
        root, *others = (await api.get(f"{P}/errors"))["errors"]
        assert (root["root"], root["kind"], root["what"]) == (True, "halted", why)
        assert [(one["where"], one["kind"]) for one in others] == [
            ("node 0", "failed"),
            ("node 0", "attempt: query"),
        ]
        assert "bad value" in others[1]["what"]
        for path in (f"{P}/start", f"{P}/checkpoints"):
            refused = await api.post(path, 409)
            assert why in refused["detail"]
            assert refused["type"] == "urn:kcontrol:problem:halted"
            assert "resume" in refused["remedy"]

    run(scenario)


def test_checkpoints_that_are_in_the_log(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(6, 0)
        made = Checkpoint(
            "p", 1, 1, 0, "file:///c", (SavedPart(0, 3, "file:///c/1", 2, 10),), 1, 2, "r", 1, 0, 0
        )
        await api.told.checkpoint(made)
        await api.seen(await api.told.status(checkpoint_failure="node 0: disk full"), steps=1)
        assert await api.projections.until(
            lambda: api.projections.get("p").committed.checkpoint == 1, DEADLINE_S
        )
        answer = await api.get(f"{P}/checkpoints")
        assert (answer["checkpoints"], answer["failure"]) == ([to_json(made)], "node 0: disk full")

    run(scenario)


def test_nothing_is_there_that_was_never_submitted(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.say(CheckpointRequest("p", "r"))
        await api.all_read()
        missing = await api.get("/v1/pipelines/p", 404)
        assert (missing["status"], missing["instance"]) == (404, "/v1/pipelines/p")
        assert "kcontrol run" in missing["detail"]
        assert (await api.get("/v1/pipelines"))["pipelines"] == []

    run(scenario)


def test_the_profile_of_a_chosen_node_is_taken_at_the_node(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin("http://host-b:8481")
        await api.seen(0)
        assert (await api.get(f"{P}/nodes/0"))["node"]["listens"] == "http://host-b:8481"
        for asked, there in (
            ("cpu?seconds=2.5&part=jvm", "cpu?part=jvm&seconds=2.5"),
            ("cpu", "cpu?part=python&seconds=5"),
            ("heap", "heap?part=python"),
        ):
            answer = await api.client.get(f"{P}/nodes/0/profile/{asked}")
            assert (answer.status_code, answer.headers["location"]) == (
                307,
                f"http://host-b:8481/profile/{there}",
            )
        assert "no node 1" in (await api.get(f"{P}/nodes/1/profile/cpu", 404))["detail"]
        await api.get(f"{P}/nodes/0/profile/cpu", 422, seconds=60)

    run(scenario)


def test_a_node_that_does_not_listen_has_no_profile(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        assert "--metrics-port" in (await api.get(f"{P}/nodes/0/profile/cpu", 409))["detail"]

    run(scenario)
