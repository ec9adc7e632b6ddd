"""A pipeline with state of every kind, with checkpoints at some of its steps, and what its tables must then hold."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import kcontrol
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.model import Checkpoint, CheckpointSpec, PipelineSpec, SavedPart, StepBoundary
from kcontrol.definition.parts import KafkaInput, KafkaOutput, TaskLayout
from kcontrol.definition.pipeline import Pipeline
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.spark.stepper import TIMEOUT_MS, Stepper
from tests.support.owning import commit_at_end

NAMES = "abcdefg"
SCHEMA = "name string, n long"
Rows = list[dict[str, Any]]


def fields(frame: DataFrame) -> DataFrame:
    return frame.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")


def totals(events: DataFrame) -> Any:
    grouped = fields(events).groupBy("name")
    return kcontrol.output(grouped.agg(F.count("*").alias("c"), F.sum("n").alias("s")), mode="update")


def seen(events: DataFrame) -> Any:
    return fields(events).select("name").dropDuplicates(["name"])


def pairs(events: DataFrame, others: DataFrame) -> Any:
    left, right = (
        fields(events).select("name", F.col("n").alias("a")),
        fields(others).select("name", F.col("n").alias("b")),
    )
    return left.join(right, "name")


class Running(StatefulProcessor):
    """Counts, and never forgets."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._total.get()[0] if self._total.exists() else 0
        if not before:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_600_000)
        self._total.update((before + sum(1 for _ in rows),))
        return iter(())

    def close(self) -> None:
        pass


def running(events: DataFrame) -> Any:
    frame = (
        fields(events)
        .select("name")
        .groupBy("name")
        .transformWithState(
            statefulProcessor=Running(),
            outputStructType="name string",
            outputMode="Update",
            timeMode="ProcessingTime",
        )
    )
    return kcontrol.output(frame, mode="update")


@dataclass
class Told:
    """What the inputs held after a step."""

    events: Rows = field(default_factory=list)
    others: Rows = field(default_factory=list)

    def totals(self) -> dict[str, tuple[int, int]]:
        counts, sums = Counter(), Counter()
        for each in self.events:
            counts[each["name"]] += 1
            sums[each["name"]] += each["n"]
        return {name: (counts[name], sums[name]) for name in counts}


@dataclass
class AskedPipeline:
    """name, and by step what the inputs hold after it. kept: steps that have a checkpoint."""

    name: str
    spec: PipelineSpec
    location: str
    told: dict[int, Told]
    boundaries: dict[int, StepBoundary] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)


def make(
    spark: SparkSession,
    settings: ClusterSettings,
    topics: TopicFactory,
    directory: Path,
    queries: Sequence[Callable[..., Any]],
    plan: tuple[int, int],
    dice: Any,
) -> AskedPipeline:
    """Run it, and save some of its steps. plan: how many steps, and each how manyth of them is saved."""
    read = {name for query in queries for name in signature(query).parameters}
    pipeline = Pipeline(
        f"asked{secrets.token_hex(3)}",
        inputs=[KafkaInput(name, topic=topics(name, 2)) for name in sorted(read)],
        outputs=[
            KafkaOutput(
                query.__name__,
                topic=topics(query.__name__, 3),
                key="name" if query is totals else None,
                value_format="json",
            )
            for query in queries
        ],
        layout=TaskLayout(max_tasks=2, records_per_task=4, shuffle_partitions=2),
        limits=kcontrol.Limits(step_timeout="150 s", transaction_timeout="200 s"),
    )
    for query in queries:
        pipeline.query(query)
    ensure_topics(settings, pipeline.name)
    return asyncio.run(_run(spark, settings, pipeline, directory, plan, dice))


async def _run(
    spark: SparkSession,
    settings: ClusterSettings,
    pipeline: Pipeline,
    directory: Path,
    plan: tuple[int, int],
    dice: Any,
) -> AskedPipeline:
    stepper = Stepper(spark, settings, pipeline, directory / "work")
    location = (directory / "checkpoints").as_uri()
    spec = replace(stepper.spec, checkpoint=CheckpointSpec(location, 60_000, 10, -1, shared=True))
    made = AskedPipeline(pipeline.name, spec, location, told_after(plan[0], dice))
    control = await KafkaControlLog.open(settings, pipeline.name)
    try:
        await control.append([spec])
        await stepper.engine.open(0, create=True)
        for step, told in made.told.items():
            before = made.told.get(step - 1, Told())
            _produce(stepper, "events", told.events[len(before.events) :])
            if len(spec.inputs) > 1:
                _produce(stepper, "others", told.others[len(before.others) :])
            made.boundaries[step] = await stepper.step()
            if step % plan[1] == 0:
                await _save(stepper, made, step)
    finally:
        await control.close()
        await stepper.close()
    return made


def told_after(steps: int, dice: Any) -> dict[int, Told]:
    """By step, what its inputs hold after it. Whatever the dice say, each step has a pair: one of its others has the name of
    one of its events."""
    after: dict[int, Told] = {}
    told = Told()
    for step in range(1, steps + 1):
        events = _rows(dice)
        others = [{"name": dice.choice(events)["name"], "n": dice.randrange(100)}, *_rows(dice, 3)]
        told = after[step] = Told([*told.events, *events], [*told.others, *others])
    return after


def _rows(dice: Any, most: int = 8) -> Rows:
    return [{"name": dice.choice(NAMES), "n": dice.randrange(100)} for _ in range(dice.randrange(1, most))]


def _produce(stepper: Stepper, name: str, rows: Rows) -> None:
    for number, row in enumerate(rows):
        stepper.produce(name, [(None, json.dumps(row).encode())], number % 2)


async def _save(stepper: Stepper, made: AskedPipeline, step: int) -> None:
    await stepper.engine.pin(step)
    saved = await stepper.engine.save(step, 1, made.location)
    await record(
        stepper,
        made,
        step,
        (SavedPart(0, stepper.incarnation, saved.manifest, saved.files, saved.size_bytes),),
    )
    made.kept.append(step)


async def record(stepper: Stepper, made: AskedPipeline, step: int, parts: tuple[SavedPart, ...]) -> None:
    """Commit the record of a checkpoint, as a coordinator does."""
    offsets = await _boundary_offsets(stepper.settings, made.name)
    begin = offsets[made.kept[0] if made.kept else step]
    checkpoint = Checkpoint(
        made.name,
        step,
        1,
        offsets[step],
        made.location,
        parts,
        1,
        2,
        "",
        first_step=1,
        resized_step=0,
        begin_offset=begin,
    )
    producer = await stepper.transaction.init_producer(TIMEOUT_MS)
    await stepper.transaction.add_partitions(
        *producer, [(stepper.settings.names().steps_topic(made.name), 0)]
    )
    await commit_at_end(stepper.settings, stepper.transaction, producer, checkpoint)


async def _boundary_offsets(settings: ClusterSettings, pipeline: str) -> dict[int, int]:
    log = KafkaStepsLog(settings, pipeline)
    try:
        read = await log.read_to_end()
        return {each.record.step: each.offset for each in read if isinstance(each.record, StepBoundary)}
    finally:
        await log.close()
