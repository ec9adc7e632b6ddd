"""How long a coordinator, and whoever else reads the log of steps, needs to start when the log is long.

The log is made up, but its records go through the real codec into a real topic, many to a transaction,
because committing each step in its own would take hours. Near its end is a checkpoint of the form that
coordinators write, so both can be timed on the same log: reading from the checkpoint, as all processes do,
and reading from the beginning, as they did without.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import Producer

from bench.figures import Spread
from examples import processes
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.keys import key_of
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    EMPTY_DIGEST,
    BadRecords,
    Checkpoint,
    CheckpointSpec,
    InputSlice,
    InputSpec,
    Layout,
    LayoutSpec,
    OutputLayout,
    OutputSlice,
    OutputSpec,
    PipelineSpec,
    Reason,
    SavedPart,
    Status,
    StepBoundary,
    StepPolicySpec,
    Token,
)
from kcontrol.core.node.state import NodeMachine
from kcontrol.core.retry import DEFAULT_LIMITS
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.codec import RecordCodec

SIZES = (100, 10_000, 100_000)
QUICK_SIZES = (100, 2_000)
AFTER_CHECKPOINT = 50
"""Steps after the newest checkpoint: a minute of steps of more than a second, or less of shorter ones."""
BETWEEN_CHECKPOINTS = 50
PARTITIONS = 4
STEPS_A_TRANSACTION = 500
TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.01
_FIRST_MS = 1_700_000_000_000

Read = Callable[[ClusterSettings, int], Coroutine[None, None, None]]


@dataclass(frozen=True)
class StartUp:
    """Of one length of log, in milliseconds. coordinator: from the start of its process to
    its first status of the pipeline.
    reading: looking for the checkpoint, reading from there and folding, as node and
    coordinator do. whole: reading all."""

    steps: int
    coordinator: Spread
    reading: Spread
    whole: Spread


def measure_startup(bootstrap_servers: str, sizes: tuple[int, ...], repeats: int) -> list[StartUp]:
    """One log of each size. Raises RuntimeError when a coordinator does not come, or finds
    something else than was written."""
    found = []
    for size in sizes:
        settings = ClusterSettings(
            bootstrap_servers=bootstrap_servers, prefix=f"startup-{uuid.uuid4().hex[:8]}"
        )
        ensure_topics(settings, "long")
        asyncio.run(submit(settings, long_spec()))
        write_log(settings, size)
        times = range(repeats)
        found.append(
            StartUp(
                size,
                Spread.of([_coordinator_ms(settings, size) for _ in times]),
                Spread.of([_reading_ms(_read, settings, size) for _ in times]),
                Spread.of([_reading_ms(_read_whole, settings, size) for _ in times]),
            )
        )
    return found


def write_log(settings: ClusterSettings, steps: int) -> None:
    """Boundaries of so many steps, and two checkpoints not far from their end. Raises KafkaException."""
    codec, topic = RecordCodec(), settings.names().steps_topic("long")
    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "transactional.id": f"{topic}-fill",
            "linger.ms": 20,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    newest = max(2, steps - AFTER_CHECKPOINT)
    saved = {max(1, newest - BETWEEN_CHECKPOINTS), newest}
    offsets: dict[int, int] = {}

    def put(key: str, value: bytes, step: int = 0) -> None:
        def wrote(_error: object, message: object) -> None:
            if step:
                offsets[step] = message.offset()  # type: ignore[attr-defined]

        producer.produce(topic, value, key, partition=0, on_delivery=wrote)

    for first in range(1, steps + 1, STEPS_A_TRANSACTION):
        producer.begin_transaction()
        for step in range(first, min(steps, first + STEPS_A_TRANSACTION - 1) + 1):
            record = boundary(step)
            if step == 1:
                for record_key, schema in codec.publications(record):
                    put(record_key, schema)
            put(key_of(record), codec.encode(record), step)
            producer.poll(0)
        producer.commit_transaction(TIMEOUT_S)
    for step in sorted(saved):
        made = checkpoint(step, offsets[step], offsets[min(saved)])
        producer.begin_transaction()
        for record_key, schema in codec.publications(made):
            put(record_key, schema)
        put(key_of(made), codec.encode(made))
        producer.commit_transaction(TIMEOUT_S)


def boundary(step: int) -> StepBoundary:
    """Of a step that read ten records of each partition and wrote as many."""
    at, end = (step - 1) * 10, step * 10
    return StepBoundary(
        pipeline="long",
        step=step,
        token=Token(7, 1, 4_711, step % 30_000, (3,)),
        now_ms=_FIRST_MS + step * 100,
        reason=Reason.RECORDS,
        fingerprint="f" * 64,
        nodes=1,
        inputs=tuple(
            InputSlice("records", "in", "T1", p, at, end, 10, EMPTY_DIGEST) for p in range(PARTITIONS)
        ),
        outputs=tuple(OutputSlice("written", "out", p, at, end, 10, EMPTY_DIGEST) for p in range(PARTITIONS)),
        layout=Layout((), 2, (OutputLayout("written", PARTITIONS, 1, "exact"),)),
        paused_inputs=(),
        opened_ms=_FIRST_MS + step * 100,
        committed_ms=_FIRST_MS + step * 100 + 50,
        skipped=(),
        watermark_moved=False,
    )


def checkpoint(step: int, offset: int, begin_offset: int) -> Checkpoint:
    """Of one node, with every step still in the log."""
    parts = (SavedPart(0, 3, f"manifests/step-{step}.json", 2, 1_000),)
    made_ms = _FIRST_MS + step * 100
    return Checkpoint(
        "long", step, 7, offset, "file:///nowhere", parts, made_ms, made_ms, "", 1, 0, begin_offset
    )


def long_spec() -> PipelineSpec:
    """A definition that the log could have been made by."""
    source = InputSpec(
        "records", "in", "T1", (0,) * PARTITIONS, (0,) * PARTITIONS, "raw", BadRecords.HALT, "", ""
    )
    written = OutputSpec("written", "out", "T2", PARTITIONS, "", "raw", "exact")
    policy = StepPolicySpec(1, 100, 1_000, 0)
    return spec("long", (source,), (written,), policy, CheckpointSpec("file:///nowhere", 60_000, 2, -1))


def spec(
    pipeline: str,
    inputs: tuple[InputSpec, ...],
    outputs: tuple[OutputSpec, ...],
    policy: StepPolicySpec,
    checkpoint: CheckpointSpec,
) -> PipelineSpec:
    """A definition of one node and one query that nobody compiles."""
    return PipelineSpec(
        pipeline=pipeline,
        fingerprint="f" * 64,
        compatible_with=(),
        nodes=1,
        queries=("q",),
        stateful=True,
        inputs=inputs,
        outputs=outputs,
        policy=policy,
        layout=LayoutSpec(1, 100_000, 2),
        limits=replace(DEFAULT_LIMITS, heartbeat_timeout_ms=60_000),
        checkpoint=checkpoint,
    )


async def submit(settings: ClusterSettings, definition: PipelineSpec) -> None:
    """Into the control topic, as it is. Raises KafkaException."""
    log = await KafkaControlLog.open(settings, definition.pipeline)
    try:
        await log.append([definition])
    finally:
        await log.close()


def _reading_ms(read: Read, settings: ClusterSettings, steps: int) -> float:
    began = time.perf_counter()
    asyncio.run(read(settings, steps))
    return 1_000 * (time.perf_counter() - began)


async def _read(settings: ClusterSettings, steps: int) -> None:
    log = KafkaStepsLog(settings, "long")
    try:
        newest = await log.begin_at_checkpoint()
        if newest is None:
            raise RuntimeError("the checkpoint was not found")
        machine = NodeMachine.initial("long", 0).begun_at(newest)
        _check(await _fold(log, machine.steps), steps)
    finally:
        await log.close()


async def _read_whole(settings: ClusterSettings, steps: int) -> None:
    log = KafkaStepsLog(settings, "long")
    try:
        _check(await _fold(log, StepsView("long")), steps)
    finally:
        await log.close()


async def _fold(log: KafkaStepsLog, view: StepsView) -> StepsView:
    for logged in await log.read_to_end():
        view = evolve(view, logged)
    return view


def _check(view: StepsView, steps: int) -> None:
    if (view.first, view.step, len(view.checkpoints)) != (1, steps, 2):
        raise RuntimeError(
            f"steps {view.first} to {view.step} and {len(view.checkpoints)} checkpoints were read, of "
            f"{steps} and 2"
        )


def _coordinator_ms(settings: ClusterSettings, steps: int) -> float:
    """A process of its own, from its start until it has said where the pipeline is."""
    with tempfile.TemporaryDirectory(prefix="bench-startup-") as scratch:
        home = Path(scratch)
        (home / "kcontrol.toml").write_text(
            f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{settings.prefix}"\n',
            encoding="utf-8",
        )
        process = processes.coordinator(f"startup-{uuid.uuid4().hex[:6]}", settings.bootstrap_servers, home)
        process.directory = home
        statuses = asyncio.run(_statuses(settings))
        began = time.perf_counter()
        process.start()
        try:
            for step in _followed(settings, statuses, process):
                if step == steps:
                    return 1_000 * (time.perf_counter() - began)
        finally:
            process.stop()
    raise RuntimeError(f"no coordinator has said that step {steps} is committed\n{process.log_tail()}")


async def _statuses(settings: ClusterSettings) -> int:
    log = await KafkaControlLog.open(settings, "long")
    try:
        return sum(isinstance(each.record, Status) for each in await log.read_to_end())
    finally:
        await log.close()


def _followed(settings: ClusterSettings, known: int, process: processes.KcontrolProcess) -> Iterator[int]:
    """The steps in statuses beyond the first `known`, as they come."""
    with asyncio.Runner() as runner:
        log = runner.run(KafkaControlLog.open(settings, "long"))
        try:
            seen, deadline = 0, time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline and process.is_running:
                for each in runner.run(log.read_to_end()):
                    if isinstance(each.record, Status):
                        seen += 1
                        if seen > known:
                            yield each.record.step
                time.sleep(LOOK_EVERY_S)
        finally:
            runner.run(log.close())
