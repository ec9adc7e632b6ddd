"""One node's engine runs a step in stages, beside another node that is played by the test: what it sends, that it waits, what
it reads, what it delivers, and that a replay gives the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Sent
from kcontrol.adapters.kafka.exchange.writer import ExchangeWriter
from kcontrol.adapters.spark.state.shards import COMMIT_VALIDATION
from kcontrol.core.model import EventTimes, ExchangeSlice, FailureKind, StepResult, StepWork, Watermark
from kcontrol.core.step.exchange import in_order, runs_for, stages_of
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import ConfigurationError, StepFailedError
from kcontrol.wire.murmur2 import partition_of
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper

ME, OTHER, NODES = 0, 1, 2
ROWS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
FORMATTED: dict[str, Any] = {"value_format": "json"}
JSON: dict[str, Any] = {"value_format": "json", "schema": "user string, amount long"}
LAYOUT = TaskLayout(max_tasks=2, shuffle_partitions=4)


def totals(numbers: Any) -> Any:
    mine = kcontrol.exchange(numbers.select("user", "amount"), by="user", name="users")
    grouped = mine.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    return {"out": kcontrol.output(grouped, mode="update")}


def produced(stepper: Stepper, *rows: tuple[str, int]) -> None:
    records = [(None, json.dumps({"user": user, "amount": amount}).encode()) for user, amount in rows]
    for partition in range(2):
        stepper.produce("numbers", records[partition::2], partition)


class OtherNode:
    """What node 1 would do in an attempt."""

    def __init__(self, stepper: Stepper, work: StepWork) -> None:
        self._stepper, self._work = stepper, work

    def sends(self, name: str, rows: Sequence[tuple[str, int]], to: int) -> ExchangeSlice:
        """Rows of users, all to one node."""
        token, spec = self._work.token, next(x for x in self._stepper.spec.exchanges if x.name == name)
        producer = (token.producer_id, token.producer_epoch)
        transaction = StepTransaction(self._work.transactional_id, *producer, self._work.step)
        slot = OTHER * self._stepper.spec.layout.max_tasks
        writer = ExchangeWriter(self._stepper.settings, transaction, name, spec.topic, slot, NODES)
        batch = pa.RecordBatch.from_arrays(
            [pa.array([user for user, _ in rows]), pa.array([amount for _, amount in rows], pa.int64())],
            schema=ROWS,
        )
        hashes = np.arange(len(rows), dtype=np.int64)
        writer.write(batch, np.full(len(rows), to, dtype=np.int32), hashes, hashes)
        sent = writer.finish()
        assert sent is not None
        return sent

    def reads(self, name: str, slices: Sequence[ExchangeSlice], schema: pa.Schema) -> list[dict[str, Any]]:
        """What was sent to node 1, while the transaction is open."""
        token, spec = self._work.token, next(x for x in self._stepper.spec.exchanges if x.name == name)
        sent = Sent(self._work.step, OTHER, token.producer_id, token.producer_epoch, committed=False)
        reader = ExchangeReader(self._stepper.settings, name, spec.topic, spec.topic_id, schema)
        runs = [(s.partition, r.from_, r.to) for s in slices for r in s.runs if r.node == OTHER]
        return [row for batch in reader.read(runs, sent) for row in batch.to_pylist()]


async def begun(stepper: Stepper) -> StepWork:
    return await stepper.begin(len(stepper.log) + 1, stepper.division(stepper.ends()))


async def stages(stepper: Stepper, work: StepWork, foreign: Sequence[tuple[str, int]]) -> StepResult:
    """All stages of an attempt; the other node sends these rows to this one in the first."""
    early = await stepper.engine.run_step(work, None)
    sent = [*early.sent, OtherNode(stepper, work).sends("users", foreign, ME)]
    result = early
    for stage in range(1, stages_of(stepper.spec)):
        result = await stepper.engine.run_stage(work.step, stage, runs_for(sent, ME))
        sent += result.sent
    return replace(result, sent=in_order(sent))


async def stepped(stepper: Stepper, foreign: Sequence[tuple[str, int]]) -> StepResult:
    """A whole step."""
    work = await begun(stepper)
    result = await stages(stepper, work, foreign)
    await stepper.commit(work, result)
    await stepper.engine.finish_step(work.step)
    return result


def written(stepper: Stepper, user: str) -> list[dict[str, Any]]:
    """By step, what came out for a user."""
    rows = sorted(stepper.committed("out"), key=lambda row: row.step)
    return [row for each in rows if (row := json.loads(each.value or b""))["user"] == user]


def run_two(
    run_scenario: RunScenario, query: Any, scenario: Any, layout: TaskLayout = LAYOUT, **outputs: Any
) -> None:
    run_scenario([query], scenario, {"numbers": (2, JSON)}, {"out": (2, outputs)}, layout=layout, nodes=NODES)


def test_a_step_is_run_in_stages_and_again_from_what_the_log_says(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in range(1, 4):
            produced(stepper, *[(f"u{number % 7}", step * number) for number in range(20)])
            work = await begun(stepper)
            early = await stepper.engine.run_step(work, None)
            assert (early.inputs, early.outputs, early.taken) == ((), (), ())
            other = OtherNode(stepper, work)
            elsewhere = other.reads("users", early.sent, ROWS)
            sent = in_order([*early.sent, other.sends("users", [("other", step)], ME)])
            result = await stepper.engine.run_stage(step, 1, runs_for(sent, ME))
            [taken] = result.taken
            assert taken.records == 10 - len(elsewhere) + 1, "this node reads one of the partitions"
            await stepper.commit(work, replace(result, sent=sent))
            await stepper.engine.finish_step(step)
        assert [(row["n"], row["total"]) for row in written(stepper, "other")] == [(1, 1), (2, 3), (3, 6)]
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        for step in (2, 3):
            again = await stepper.replay(step)
            assert {piece.partition for piece in again.sent} == {0}

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_only_the_partitions_of_the_shards_of_this_node_are_run(run_scenario: RunScenario) -> None:
    """Of four, 0 and 2; and so it is in a replay by an incarnation that begins with what is there."""

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        assert stepper.spark.conf.get(COMMIT_VALIDATION) == "false"
        for step in range(1, 4):
            produced(stepper, *[(f"u{number}", step) for number in range(20)])
            await stepped(stepper, [("other", 1)])
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        for step in (2, 3):
            await stepper.replay(step)
        partitions = {
            int(path.name)
            for state in stepper.work_root.rglob("state")
            for path in state.glob("*/*")
            if path.name.isdecimal()
        }
        assert partitions == {0, 2}
        await stepper.engine.close()
        assert stepper.spark.conf.get(COMMIT_VALIDATION) == "true"

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_rows_of_shards_of_another_node_end_the_attempt(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        with pytest.raises(StepFailedError, match="belong to shards of other nodes") as failed:
            await stepped(stepper, [("u0", 1)])
        assert failed.value.kind is FailureKind.QUERY

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_two_queries_read_what_was_sent_once(run_scenario: RunScenario) -> None:
    """A third one sends it on, and one of the two reads that as well, in a later stage."""

    def both(numbers: Any) -> Any:
        mine = kcontrol.exchange(numbers.select("user", "amount"), by="user", name="users")
        total = mine.groupBy("user").agg(F.sum("amount").alias("total"))
        again = kcontrol.exchange(mine.select("user"), by="user", name="more")
        counted = mine.select("user").union(again).groupBy("user").agg(F.count("*").alias("n"))
        return {
            "out": kcontrol.output(total, mode="update"),
            "counts": kcontrol.output(counted, mode="update"),
        }

    async def scenario(stepper: Stepper) -> None:
        stages_found = dict(zip(stepper.spec.queries, stepper.spec.stages, strict=True))
        assert stages_found == {"users.send": 0, "more.send": 1, "out": 1, "counts": 2}
        await stepper.engine.open(0, create=True)
        again = 0
        for step in (1, 2):
            result = await stepped(stepper, [("other", step), ("other", 10)])
            assert [each.records for each in result.taken if each.exchange == "users"] == [2]
            again += sum(
                run.records
                for piece in result.sent
                if piece.exchange == "more"
                for run in piece.runs
                if run.node == ME
            )
            found = [json.loads(row.value or b"") for row in stepper.committed("counts") if row.step == step]
            assert found == [{"user": "other", "n": 2 * step + again}]
        assert [row["total"] for row in written(stepper, "other")] == [11, 23]
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        await stepper.replay(2)

    outputs = dict.fromkeys(("out", "counts"), (2, FORMATTED))
    run_scenario([both], scenario, {"numbers": (2, JSON)}, outputs, layout=LAYOUT, nodes=NODES)


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_node_sends_one_row_for_each_key_of_a_step(run_scenario: RunScenario, tasks: int) -> None:
    """The other node's rows are parts, too: any number of them for a key."""

    def combined(numbers: Any) -> Any:
        parts = [F.sum("amount").alias("amount")]
        mine = kcontrol.exchange(numbers.select("user", "amount"), by="user", name="users", combine=parts)
        return {
            "out": kcontrol.output(mine.groupBy("user").agg(F.sum("amount").alias("total")), mode="update")
        }

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in (1, 2, 3):
            produced(stepper, *[(f"u{number // 2 % 5}", step) for number in range(40)])
            work = await begun(stepper)
            assert [each.senders for each in work.layout.exchanges] == [tasks]
            result = await stages(stepper, work, [("other", step), ("other", 1)])
            own = [run for piece in result.sent if piece.partition < LAYOUT.max_tasks for run in piece.runs]
            assert sum(run.records for run in own) == 5
            await stepper.commit(work, result)
            await stepper.engine.finish_step(step)
        assert [row["total"] for row in written(stepper, "other")] == [2, 5, 9]
        mine = {row["user"] for each in stepper.committed("out") if (row := json.loads(each.value or b""))}
        for user in mine - {"other"}:
            assert [row["total"] for row in written(stepper, user)] == [4, 12, 24]
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        for step in (2, 3):
            await stepper.replay(step)

    layout = TaskLayout(max_tasks=2, shuffle_partitions=4, records_per_task=20 // tasks)
    run_two(run_scenario, combined, scenario, layout, **FORMATTED)


def test_an_attempt_that_ends_between_or_after_its_stages_leaves_nothing(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await stepped(stepper, [("other", 1)])
        for ended_after in (0, 1):
            work = await begun(stepper)
            if ended_after == 0:
                await stepper.engine.run_step(work, None)
            else:
                await stages(stepper, work, [("other", 100)])
            stepper.engine.cancel()
            with pytest.raises(StepFailedError, match="cancelled"):
                await stepper.engine.run_stage(work.step, 1, ())
            await stepper.abort()
            await stepper.engine.open(1, create=False)
        await stepped(stepper, [("other", 2)])
        assert [(row["n"], row["total"]) for row in written(stepper, "other")] == [(1, 1), (2, 3)]

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_rows_that_are_not_there_end_the_attempt(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        work = await begun(stepper)
        await stepper.engine.run_step(work, None)
        sent = OtherNode(stepper, work).sends("users", [("other", 1)], ME)
        [run] = sent.runs
        more = replace(sent, runs=(replace(run, records=2),))
        with pytest.raises(
            StepFailedError, match="found 1 rows in exchange 'users', where 2 were sent"
        ) as failed:
            await stepper.engine.run_stage(work.step, 1, (more,))
        assert failed.value.kind is FailureKind.LOST

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_rows_of_another_attempt_end_the_attempt(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        before = await begun(stepper)
        stale = OtherNode(stepper, before).sends("users", [("stale", 1)], ME)
        await stepper.abort()
        work = await begun(stepper)
        await stepper.engine.run_step(work, None)
        with pytest.raises(StepFailedError, match="should hold what producer") as failed:
            await stepper.engine.run_stage(work.step, 1, (stale,))
        assert failed.value.kind is FailureKind.LOST

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_keyed_rows_are_delivered_to_the_partitions_of_this_node(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        assert stages_of(stepper.spec) == 3
        users = ["other", *(f"u{number}" for number in (1, 4, 5, 7, 10, 14, 18))]  # Of shards of this node.
        result = await stepped(stepper, [(user, 1) for user in users])
        here = {user for user in users if partition_of(user.encode(), 2) % NODES == ME}
        assert {row.key for row in stepper.committed("out")} == {user.encode() for user in here}
        delivered = next(each for each in result.taken if each.exchange == "out-deliver")
        assert delivered.records == len(here)
        await stepped(stepper, [(user, 1) for user in users])
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        await stepper.replay(2)

    run_two(run_scenario, totals, scenario, **FORMATTED, key="user")


def test_rows_go_to_the_partition_of_their_shard_without_being_delivered(run_scenario: RunScenario) -> None:
    users = [f"u{number}" for number in range(12)]

    async def scenario(stepper: Stepper) -> None:
        shard = F.pmod(F.hash("user"), F.lit(LAYOUT.shuffle_partitions)).alias("shard")
        rows = stepper.spark.createDataFrame([(user,) for user in users], "user string").select("user", shard)
        shards = {row.user: row.shard for row in rows.collect()}
        mine = [user for user in users if shards[user] % NODES == ME]
        await stepper.engine.open(0, create=True)
        assert stages_of(stepper.spec) == 2
        for _ in (1, 2):
            await stepped(stepper, [(user, 1) for user in mine])
        found = {(row.key, row.partition) for row in stepper.committed("out")}
        assert found == {(user.encode(), shards[user]) for user in mine}
        assert len({partition for _, partition in found}) == 2, "of the four, those of this node"
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        await stepper.replay(2)

    outputs = {"out": (4, {**FORMATTED, "key": "user", "partitioner": "shard"})}
    run_scenario([totals], scenario, {"numbers": (2, JSON)}, outputs, layout=LAYOUT, nodes=NODES)


def test_what_has_no_state_waits_for_its_rows_too(run_scenario: RunScenario) -> None:
    """Adaptive execution would run its shuffle before anybody asks the sink."""

    def largest(numbers: Any) -> Any:
        mine = kcontrol.exchange(numbers.select("user", "amount"), by="user", name="users")

        def of_user(rows: Any) -> Any:
            return rows.nlargest(1, "amount")

        return {"out": mine.groupBy("user").applyInPandas(of_user, mine.schema)}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in (1, 2):
            await stepped(stepper, [("other", step), ("other", 7 + step)])
        assert [row["amount"] for row in written(stepper, "other")] == [8, 9]

    run_two(run_scenario, largest, scenario, **FORMATTED)


def test_a_sort_behind_an_exchange_is_refused(run_scenario: RunScenario) -> None:
    """Spark samples rows for it while it plans: before or after they are there, as it happens."""

    def sorted_totals(numbers: Any) -> Any:
        mine = kcontrol.exchange(numbers.select("user", "amount"), by="user", name="users")
        grouped = mine.groupBy("user").agg(F.sum("amount").alias("total")).orderBy("total")
        return {"out": kcontrol.output(grouped, mode="complete")}

    async def scenario(_stepper: Stepper) -> None:
        raise AssertionError("it is bound")

    with pytest.raises(ConfigurationError, match="'out' sorts rows behind an exchange"):
        run_two(run_scenario, sorted_totals, scenario, **FORMATTED)


def test_a_window_closes_by_the_watermark_that_the_node_is_told(run_scenario: RunScenario) -> None:
    """`ts` is in the amount's place, in seconds."""

    def windows(numbers: Any) -> Any:
        rows = numbers.select("user", F.timestamp_seconds("amount").alias("ts")).withWatermark(
            "ts", "5 seconds"
        )
        mine = kcontrol.exchange(rows, by=[F.window("ts", "10 seconds"), "user"], name="users")
        counted = mine.groupBy("window", "user").count()
        return {"out": counted.select("user", F.unix_seconds("window.start").alias("start"))}

    async def stepped_to(stepper: Stepper, watermark_s: int) -> StepResult:
        work = await begun(stepper)
        early = await stepper.engine.run_step(work, None)
        sent = [piece for piece in early.sent if piece.runs]
        result = replace(
            await stepper.engine.run_stage(work.step, 1, runs_for(sent, ME)), sent=in_order(sent)
        )
        await stepper.commit(work, result)
        await stepper.engine.finish_step(
            work.step, (Watermark("out", (watermark_s * 1_000,), watermark_s * 1_000),)
        )
        return result

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        produced(stepper, *[(f"u{number}", 100) for number in range(16)])
        first = await stepped_to(stepper, 109)
        assert first.event_times == (EventTimes("out", ME, (100_000,)),)
        assert (await stepped_to(stepper, 110)).event_times == (EventTimes("out", ME, (0,)),)
        assert stepper.committed("out") == [], "109 s is not the end of the window"
        closed = await stepped_to(stepper, 110)
        assert sum(each.records for each in closed.outputs) == first.taken[0].records > 0

    run_two(run_scenario, windows, scenario, **FORMATTED)
