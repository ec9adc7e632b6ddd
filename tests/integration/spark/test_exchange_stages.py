"""One node's engine runs a step in stages, beside another node that is played by the test: what it sends, that it waits, what
it reads, what it delivers, and that a replay gives the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Sent
from kcontrol.adapters.kafka.exchange.writer import ExchangeWriter
from kcontrol.core.model import ExchangeSlice, StepResult, StepWork
from kcontrol.core.step.exchange import in_order, runs_for, stages_of
from kcontrol.definition.parts import TaskLayout
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper

ME, OTHER, NODES = 0, 1, 2
ROWS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
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


def in_partition_of(stepper: Stepper, node: int) -> list[tuple[str, int]]:
    return [(f"u{number}", number) for number in range(20)]


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


def last(work: StepWork, sent: Sequence[ExchangeSlice], result: StepResult) -> StepResult:
    """As the coordinator would commit it."""
    from dataclasses import replace

    return replace(result, sent=in_order(sent))


def run_two(run_scenario: RunScenario, query: Any, scenario: Any, **outputs: Any) -> None:
    run_scenario([query], scenario, {"numbers": (2, JSON)}, {"out": (2, outputs)}, layout=LAYOUT, nodes=NODES)


def test_a_step_is_run_in_stages_and_again_from_what_the_log_says(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        assert stages_of(stepper.spec) == 2
        known: dict[str, tuple[int, int]] = {}
        for step in range(1, 4):
            rows = [(f"u{number % 7}", step * number) for number in range(20)]
            produced(stepper, *rows)
            work = await begun(stepper)
            early = await stepper.engine.run_step(work, None)
            other = OtherNode(stepper, work)
            elsewhere = other.reads("users", early.sent, ROWS)
            foreign = [("other", step)]
            sent = in_order([*early.sent, other.sends("users", foreign, ME)])
            result = await stepper.engine.run_stage(step, 1, runs_for(sent, ME))
            assert sum(each.records for each in result.taken) == len(rows) // 2 - len(elsewhere) + 1
            assert (
                sum(each.records for each in result.inputs) == 10
            )  # the other node reads the other partition
            await stepper.commit(work, last(work, sent, result))
            await stepper.engine.finish_step(step)
            for user, amount in foreign:
                n, total = known.get(user, (0, 0))
                known[user] = (n + 1, total + amount)
        written = [json.loads(row.value or b"") for row in stepper.committed("out")]
        assert [row for row in written if row["user"] == "other"] == [
            {"user": "other", "n": n, "total": sum(range(n + 1))} for n in range(1, 4)
        ]
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        for step in (2, 3):
            again = await stepper.replay(step)
            assert {piece.partition for piece in again.sent} == {0}

    run_two(run_scenario, totals, scenario, **{"value_format": "json"})
