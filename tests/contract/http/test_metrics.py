"""What /metrics says of pipelines, and that it says everything that the catalogue promises and nothing
else."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kcontrol.adapters.metrics.catalogue import CATALOGUE
from kcontrol.adapters.metrics.metric import Where
from kcontrol.core.model import (
    Checkpoint,
    InputDesired,
    InputSchema,
    NodePhase,
    OutputSchema,
    Replaying,
    SavedPart,
    SkippedRange,
)
from kcontrol.views.signs_of_life import SignsOfLife
from tests.contract.http.conftest import DEADLINE_S, Api, Run
from tests.support.http_world import LED

TOLD = {Where.SERVER, Where.PUSHES}
LONG_MS = LED.limits.heartbeat_timeout_ms + 1
"""A node that has said nothing for so long is silent."""
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def samples(api: Api) -> Samples:
    answer = await api.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        (one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset({"pipeline": "p", **labels}.items())))


def test_what_is_known_of_a_pipeline(run: Run) -> None:
    async def scenario(first: Api) -> None:
        await first.told.begin()
        await first.told.step(6, 0, wrote=(0, 4))
        # A commit is answered before its marker is written, and readers see it only then.
        await first.seen(0, steps=1)
        async with first.another() as api:
            await look(api)

    async def look(api: Api) -> None:
        await api.seen(0, steps=1)
        before = await samples(api)
        assert value(before, "kcontrol_committed_step") == 1
        # The step was there before this server was: it is shown, but not counted.
        assert value(before, "kcontrol_steps_total", reason="records") is None
        passed = SkippedRange("in", "input", "T1", 1, 0, 2, "me", 5, "r")
        await api.told.step(8, 3, wrote=(4, 9), skipped=(passed,))
        assert value(before, "kcontrol_input_paused", input="in") == 0
        await api.told.say(InputDesired("p", "in", True, "r"))
        await api.told.received(10, 3)
        await api.told.checkpoint(
            Checkpoint("p", 2, 1, 0, "file:///c", (SavedPart(0, 3, "m", 2, 10),), 1_000, 3_500, "", 1, 0, 0)
        )
        await api.told.say(Replaying("p", 0, api.told.incarnation, 2))
        await api.seen(await api.told.node(NodePhase.RUNNING, step=1), steps=2)
        assert await api.projections.until(
            lambda: api.projections.get("p").committed.checkpoint == 2, DEADLINE_S
        )
        found = await samples(api)
        assert value(found, "kcontrol_steps_total", reason="records") == 1
        assert value(found, "kcontrol_records_in_total", input="in") == 2 + 1
        assert value(found, "kcontrol_offsets_skipped_total", input="in") == 2
        assert value(found, "kcontrol_input_paused", input="in") == 1
        assert value(found, "kcontrol_records_out_total", output="out") == 5
        assert value(found, "kcontrol_transaction_open_seconds_sum") == 0.1
        assert value(found, "kcontrol_input_lag_records", input="in") == 2
        assert (value(found, "kcontrol_input_lag_seconds", input="in") or 0) >= 0
        assert value(found, "kcontrol_pipeline_phase", phase="running") == 1
        assert value(found, "kcontrol_pipeline_phase", phase="halted") == 0
        assert value(found, "kcontrol_node_step", node="0") == 1
        assert value(found, "kcontrol_node_replay_left_steps", node="0") == 1
        assert value(found, "kcontrol_checkpoint_step") == 2
        assert value(found, "kcontrol_checkpoint_size_bytes") == 10
        assert value(found, "kcontrol_checkpoint_duration_seconds") == 2.5
        assert value(found, "kcontrol_checkpoint_timestamp_seconds") == 3.5
        assert value(found, "kcontrol_coordinator_info", host="host-a", process_id="41") == 1
        assert value(found, "kcontrol_claim_epoch") == api.projections.get("p").view.epoch
        assert found["kcontrol_ready", frozenset()] == 1

    run(scenario)


def test_a_silent_node_replays_nothing_that_anybody_knows_of(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(6, 0)
        await api.told.step(7, 0)
        await api.seen(0, steps=2)
        passed = {"ms": 0}
        signs = api.projections.get("p").signs = SignsOfLife(lambda: passed["ms"])
        signs.listen()
        await api.seen(await api.told.node(NodePhase.RUNNING, step=1))
        for passed["ms"], phase, runs, left in ((0, "running", 2, 1), (LONG_MS, "silent", None, None)):
            node = (await api.get("/v1/pipelines/p/nodes/0"))["node"]
            assert (node["phase"], node["running"], node["replaying"], node["step"]) == (phase, runs, runs, 1)
            found = await samples(api)
            assert value(found, "kcontrol_node_step", node="0") == 1
            assert value(found, "kcontrol_node_replay_left_steps", node="0") == left

    run(scenario)


def test_what_kafka_has_of_the_input_of_a_replay_is_asked_or_absent(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        assert await api.projections.until(lambda: bool(api.projections.get("p").kept), DEADLINE_S)
        [asked] = api.projections.get("p").kept.values()
        left = value(await samples(api), "kcontrol_replay_input_left_records", input="in")
        # Another test may have made a topic of that name: it is not the one that the pipeline reads.
        told = not isinstance(asked, str) and asked.topic_id == api.told.input.topic_id
        assert (left is not None) == told
        [shown] = (await api.get("/v1/pipelines/p"))["status"]["replay"]
        assert shown["left"] == left
        assert bool(shown["unknown"]) == (left is None)

    run(scenario)


def test_schemas_of_a_registry_are_counted_by_what_uses_them(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(await api.told.say(InputSchema("p", 0, 3, 1, "AVRO", "{}", ())))
        found = await samples(api)
        assert [value(found, "kcontrol_schemas", use=use) for use in ("input", "output")] == [1, 0]
        await api.told.say(InputSchema("p", 0, 7, 2, "AVRO", "{}", ()))
        await api.seen(await api.told.say(OutputSchema("p", "out", 9, "out-value", "JSON", "{}")))
        found = await samples(api)
        assert [value(found, "kcontrol_schemas", use=use) for use in ("input", "output")] == [2, 1]

    run(scenario)


def test_the_catalogue_and_the_exposition_agree(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        text = (await api.client.get("/metrics")).text
        told = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE kcontrol_"))
        assert told == {metric.name: metric.kind.value for metric in CATALOGUE if metric.where in TOLD}
        for metric in CATALOGUE:
            assert metric.where not in TOLD or f"# HELP {metric.name} {metric.text}" in text

    run(scenario)
