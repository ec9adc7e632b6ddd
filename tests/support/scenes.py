"""A cluster at work, for the Console: five pipelines, each in another state. The same seed gives the same
cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kcontrol.core.model import (
    Desired,
    DesiredMode,
    FailureKind,
    NodePhase,
    PipelinePhase,
    Reason,
    StepBoundary,
    Token,
    Written,
)
from tests.fakes.memory_kafka import MemoryKafka
from tests.support.played import Played, Work, spec_of

STEPS = 90
WHY_HALTED = (
    "step 7,312, input 'payments', partition 2, offset 1,204,417: the value is not JSON: Expecting ',' "
    "delimiter at character 118; correct the producer, or set on_bad_record to 'skip' or 'dead_letter', "
    "then resume the pipeline"
)


class StageClock:
    """Kafka's clock: the real one, unless a scene of the past is being played."""

    def __init__(self, real_ms: Callable[[], int]) -> None:
        self._real_ms = real_ms
        self.past_ms: int | None = None

    def __call__(self) -> int:
        return self._real_ms() if self.past_ms is None else self.past_ms


@dataclass
class Cluster:
    """`clicks` runs and is busy, `fraud-alerts` has halted, the others rest or idle."""

    clock: StageClock
    kafka: MemoryKafka
    clicks: Played
    fraud: Played
    idle: Played
    paused: Played
    stopped: Played


async def busy_cluster(real_ms: Callable[[], int], seed: int = 7) -> Cluster:
    """As of now."""
    random, clock, now_ms = Random(seed), StageClock(real_ms), real_ms()
    kafka = MemoryKafka(clock)
    clicks = await _clicks(kafka, now_ms, random)
    played = []
    for ago_ms, scene in (
        (312_000, _fraud(kafka, now_ms - 312_000, random)),
        (5_000, _idle(kafka, now_ms - 5_000, random)),
        (
            5_400_000,
            _resting(kafka, "daily-rollup", now_ms - 5_400_000, PipelinePhase.PAUSED, DesiredMode.PAUSED),
        ),
        (
            90_000_000,
            _resting(kafka, "legacy-export", now_ms - 90_000_000, PipelinePhase.STOPPED, DesiredMode.STOPPED),
        ),
    ):
        clock.past_ms = now_ms - ago_ms
        played.append(await scene)
        clock.past_ms = None
    cluster = Cluster(clock, kafka, clicks, *played)
    await beat(cluster)
    return cluster


async def beat(cluster: Cluster) -> None:
    """All coordinators and nodes that live say that they do."""
    for led in (cluster.clicks, cluster.idle):
        await led.status()
    for node in range(3):
        await cluster.clicks.node(node)
    for node in range(2):
        await cluster.fraud.node(node, NodePhase.OPEN)
    await cluster.idle.node(0)
    await cluster.paused.node(0, NodePhase.OPEN)


async def live(cluster: Cluster, every_s: float = 1.0) -> None:
    """They go on saying so, until this is cancelled: who says nothing for some seconds is shown as gone."""
    while True:
        await asyncio.sleep(every_s)
        for each in (cluster.clicks, cluster.idle, cluster.fraud, cluster.paused):
            await each.repeat()


async def click_step(clicks: Played, random: Random) -> StepBoundary:
    """One more step of `clicks`."""
    slow = random.random() < 0.06
    read = {("clicks", p): random.randrange(150, 420) for p in range(6)} | {
        ("users", p): random.randrange(3) for p in range(3)
    }
    wrote = {("page-views", p): random.randrange(30, 60) for p in range(3)}
    return await clicks.step(
        Work(
            read if not slow else {place: 3 * count for place, count in read.items()},
            wrote,
            reason=Reason.DELAY if random.random() < 0.12 else Reason.RECORDS,
            waiting_ms=random.randrange(40, 240),
            preparing_ms=random.randrange(2, 9) if not slow else random.randrange(700, 900),
            working_ms=random.randrange(70, 130) if not slow else random.randrange(180, 310),
            attempt=2 if slow else 1,
        )
    )


async def _clicks(kafka: MemoryKafka, now_ms: int, random: Random) -> Played:
    spec = spec_of("clicks", nodes=3, inputs={"clicks": 6, "users": 3}, outputs={"page-views": 3})
    clicks = Played(kafka, spec, now_ms - STEPS * 265)
    await clicks.begin(
        "kc-coordinator-0", ["worker-a", "worker-b", "worker-c"], steps=18_114, offset=1_840_200
    )
    for number in range(STEPS):
        await click_step(clicks, random)
        if number in (10, 70):
            await clicks.checkpoint(
                took_ms=1_840, size_bytes=214_000_000, request_id="" if number == 10 else "r1"
            )
    # The last one ends now, whatever the others have taken.
    clicks.now_ms = now_ms - 400
    await click_step(clicks, random)
    await clicks.receive("clicks", 207)
    await clicks.receive("users", 0)
    await clicks.status()
    return clicks


async def _fraud(kafka: MemoryKafka, now_ms: int, random: Random) -> Played:
    spec = spec_of("fraud-alerts", nodes=2, inputs={"payments": 4}, outputs={"alerts": 2})
    fraud = Played(kafka, spec, now_ms)
    await fraud.begin("kc-coordinator-1", ["worker-a", "worker-c"], steps=7_271, offset=1_190_000)
    for _ in range(40):
        read = {("payments", p): random.randrange(40, 90) for p in range(4)}
        await fraud.step(
            Work(
                read,
                {("alerts", 0): random.randrange(4)},
                waiting_ms=400,
                working_ms=random.randrange(30, 60),
            )
        )
    await fraud.checkpoint(took_ms=420, size_bytes=8_400_000)
    await fraud.receive("payments", 1_930)
    token = Token(fraud.epoch, 3, 4_011, 9, ())
    error = (
        "the value of offset 1,204,417 of web.payments-2 is not JSON: Expecting ',' delimiter at "
        "character 118"
    )
    failed = Written(
        fraud.name, 1, fraud.epoch + 2, fraud.steps + 1, token, (), (), (), False, FailureKind.QUERY, error
    )
    await fraud.say(failed)
    await fraud.status(
        PipelinePhase.HALTED, WHY_HALTED, checkpoint_failure="node 1: s3://state/fraud-alerts: access denied"
    )
    return fraud


async def _idle(kafka: MemoryKafka, now_ms: int, random: Random) -> Played:
    idle = Played(
        kafka, spec_of("orders-enriched", nodes=1, inputs={"orders": 2}, outputs={"enriched": 2}), now_ms
    )
    await idle.begin("kc-coordinator-0", ["worker-b"], steps=410)
    for _ in range(12):
        await idle.step(
            Work(
                {("orders", 0): random.randrange(1, 9)},
                {("enriched", 0): 3},
                working_ms=random.randrange(28, 44),
            )
        )
    await idle.receive("orders", 0)
    await idle.status()
    return idle


async def _resting(
    kafka: MemoryKafka, name: str, now_ms: int, phase: PipelinePhase, mode: DesiredMode
) -> Played:
    resting = Played(kafka, spec_of(name, nodes=1, inputs={"events": 1}, outputs={"sums": 1}), now_ms)
    await resting.begin("kc-coordinator-1", ["worker-c"], steps=96)
    await resting.say(Desired(name, mode, f"r-{name}"))
    await resting.step(Work({("events", 0): 12_400}, {("sums", 0): 24}, reason=Reason.CLOCK, working_ms=910))
    await resting.receive("events", 12_830)
    await resting.node(0, NodePhase.OPEN if phase is PipelinePhase.PAUSED else NodePhase.CLOSED)
    await resting.status(phase)
    return resting
