"""Runs each test of the interface on projections of a cluster in memory and of a real one, told the same
things."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.http.push_desk import PushDesk
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.push.log import KafkaPushLog
from kcontrol.adapters.kafka.read.record_look import KafkaRecordLook
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.adapters.metrics.agents import register_cluster
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.adapters.metrics.pipelines import PipelineMetrics
from kcontrol.adapters.metrics.pushes import PushMetrics
from kcontrol.adapters.metrics.regions import register_regions
from kcontrol.apps.http_server import serve_interface
from kcontrol.apps.projection_source import KafkaProjectionSource
from kcontrol.core.cluster.model import EMPTY, ClusterJob
from kcontrol.core.model import OutputSpec, PipelineSpec
from kcontrol.requests.push.limits import MemoryLimits
from kcontrol.requests.resets import ResetFacts, ResetOrder
from kcontrol.requests.table_questions import TableAnswer, TableColumn, TableQuestion
from kcontrol.sessions.ports import ProjectionSource, Reach
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import ClusterSeen
from kcontrol.views.cluster_projection import Projections
from kcontrol.views.deliveries import DeliveriesSeen, ToldDelivery
from tests.fakes.memory_kafka import (
    MemoryKafka,
    MemorySource,
)
from tests.fakes.memory_pushes import MemoryPushLog
from tests.support.http_world import LED, Told, told_in
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until
from tests.support.shared_api import app_of
from tests.support.topics import create_topic

DEADLINE_S = HANG_S
HASTY_S = 0.2
MAX_PUSH_BYTES = 200_000
MAX_QUEUED_ROWS = 1_000
REMEMBERED = 10
NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")


class PatientProjections(Projections):
    """What is waited for comes, however long a request would wait; not in a server that is hasty."""

    hasty = False

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return await super().until(condition, timeout_s if self.hasty or not timeout_s else DEADLINE_S)


@dataclass
class Api:
    """A server that answers from the world that `told` speaks to. `another` is a server that has just been
    started, `another(hasty=True)` one that does not wait for what does not come.

    writes: makes the topic of the output.
    reaches: makes the topic of the input, with so many records in each partition; before `told.begin`. Its
    name is one that no other test has, unless `topic` says another.
    jobs: that agents run, as the server knows them. deliveries: the same of pipelines' deliveries.
    """

    told: Told
    client: httpx.AsyncClient
    projections: Projections
    another: Callable[..., Any]
    reaches: Callable[..., Awaitable[None]]
    writes: Callable[[], Awaitable[OutputSpec]]
    settings: ClusterSettings
    jobs: dict[str, ClusterJob]
    deliveries: dict[str, DeliveriesSeen]

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        """The body, of a response that must have this status."""
        answer = await self.client.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, path: str, status: int = 202, body: Any = None) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def definition(self) -> PipelineSpec:
        """As a node would submit it, of topics that are there; the server has read everything."""
        await self.reaches(9, 9)
        await self.all_read()
        return replace(self.told.spec, fingerprint="f" * 64, outputs=(await self.writes(),))

    async def all_read(self) -> None:
        """Until the server has read all partitions of the control topic, those without pipelines too."""
        assert await self.projections.until(lambda: not self.projections.blocked(), DEADLINE_S)

    async def seen(self, offset: int, steps: int = 0) -> None:
        """Until the server has read the control record at this offset and so many steps."""

        def all_of_it() -> bool:
            try:
                found = self.projections.get("p")
            except Exception:  # noqa: BLE001 - not there yet
                return False
            return found.control_offset >= offset and found.committed.step >= steps

        assert await self.projections.until(all_of_it, DEADLINE_S)


Scenario = Callable[[Api], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(params=["memory", "kafka"])
def run(request: pytest.FixtureRequest) -> Run:
    """`run(scenario)` runs a coroutine function in a world of its own."""
    if request.param == "memory":
        return lambda scenario: asyncio.run(asyncio.wait_for(_in_memory(scenario), DEADLINE_S))
    settings: ClusterSettings = request.getfixturevalue("settings")
    return lambda scenario: asyncio.run(asyncio.wait_for(_on_kafka(scenario, settings), DEADLINE_S))


@pytest.fixture
def run_on_kafka(settings: ClusterSettings) -> Run:
    """The same for what only a broker can show."""
    return lambda scenario: asyncio.run(asyncio.wait_for(_on_kafka(scenario, settings), DEADLINE_S))


async def _in_memory(scenario: Scenario) -> None:
    kafka = MemoryKafka(SystemClock().now_ms)
    told = told_in(kafka)
    source = MemorySource(kafka)

    async def reaches(*ends: int, **_more: str) -> None:
        source.reaches = Reach(told.input.topic_id, ends)

    async def writes() -> OutputSpec:
        return told.spec.outputs[0]

    await _serve(scenario, told, NOBODY, lambda: source, reaches, writes)


async def _on_kafka(scenario: Scenario, shared: ClusterSettings) -> None:
    settings = shared.model_copy(update={"prefix": f"h{secrets.token_hex(4)}"})
    await asyncio.to_thread(ensure_topics, settings, "p")
    async with AsyncExitStack() as stack:
        control = await KafkaControlLog.open(settings, "p")
        stack.push_async_callback(control.close)
        transaction = KafkaTransaction(settings, "p")
        stack.push_async_callback(transaction.close)
        log = KafkaStepsLog(settings, "p")
        stack.push_async_callback(log.close)
        told = Told(control, transaction, log, [(settings.names().steps_topic("p"), 0)])
        told.spec = LED

        async def reaches(*ends: int, topic: str = f"{settings.prefix}-input") -> None:
            topic_id = await asyncio.to_thread(_make_topic, settings, topic, ends)
            told.reads(replace(told.input, topic=topic, topic_id=topic_id))

        async def writes() -> OutputSpec:
            output, topic = told.spec.outputs[0], f"{settings.prefix}-output"
            topic_id = await asyncio.to_thread(_make_topic, settings, topic, (0,) * output.partitions)
            return replace(output, topic=topic, topic_id=topic_id)

        await _serve(scenario, told, settings, lambda: KafkaProjectionSource(settings), reaches, writes)


def _make_topic(settings: ClusterSettings, topic: str, ends: tuple[int, ...]) -> str:
    create_topic(settings, topic, len(ends))
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for partition, count in enumerate(ends):
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    return TopicAdmin(settings).get(topic, "the input").topic_id


async def _serve(
    scenario: Scenario,
    told: Told,
    settings: ClusterSettings,
    source: Callable[[], ProjectionSource],
    reaches: Callable[..., Awaitable[None]],
    writes: Callable[[], Awaitable[OutputSpec]],
) -> None:
    @asynccontextmanager
    async def server(hasty: bool = False) -> Any:
        registry, clock = make_registry(), SystemClock()
        metrics = PipelineMetrics(registry, clock)
        projections = PatientProjections(source(), clock, metrics.on_step)
        projections.hasty = hasty
        metrics.watch(projections)
        register_cluster(registry, ClusterSeen)
        jobs: dict[str, ClusterJob] = {}
        deliveries: dict[str, DeliveriesSeen] = {}

        async def delivered(pipeline: str) -> DeliveriesSeen:
            return deliveries.get(pipeline, DeliveriesSeen())

        register_regions(registry, dict)
        look = None if settings is NOBODY else KafkaRecordLook(settings)
        memory = MemoryLimits(requests=REMEMBERED)
        pushes = MemoryPushLog(clock, memory) if settings is NOBODY else KafkaPushLog(settings, clock, memory)
        counted = PushMetrics(registry, pushes.remembered, REMEMBERED)
        app = app_of(
            Plane(
                settings,
                projections,
                clock,
                registry,
                longest_wait_s=HASTY_S,
                look=look,
                pushes=PushDesk(pushes, max_queued_rows=MAX_QUEUED_ROWS, observer=counted),
                resets=reset,
                agents=lambda: ClusterSeen(EMPTY.but(jobs=jobs)),
                deliveries=delivered,
            ),
            patient_limits(max_push_bytes=MAX_PUSH_BYTES),
            None,
        )
        following = asyncio.create_task(projections.run())
        transport = httpx.ASGITransport(app)
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", timeout=DEADLINE_S
            ) as client:
                yield Api(told, client, projections, server, reaches, writes, settings, jobs, deliveries)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await pushes.close()

    async with server() as api:
        await scenario(api)


async def reset(order: ResetOrder) -> ResetFacts:
    """As a server that is allowed to, whatever it is asked."""
    void = order.to_step + 1
    return ResetFacts(
        order.pipeline, not order.only_plan, order.to_step, void + 1, void, void, {}, order.to_step, 0, ()
    )


async def answer(question: TableQuestion) -> TableAnswer:
    """As a query server would, whatever it is asked."""
    column = TableColumn("n", "bigint")
    return TableAnswer(question.pipeline, question.step or 2, 1_002, [column], [[1], [None]], more=False)


def deliver(pipeline: str) -> tuple[list[ToldDelivery], int]:
    """As Kafka would say, whatever pipeline it is asked for."""
    told = ToldDelivery(
        "out", "totals", "delta", "exactly_once", "halted", 1, 2.5, f"as {pipeline} has it", 7
    )
    return [told, replace(told, target="new", state="starting", step=-1, reason="")], 1


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a real server on a socket, with one pipeline of two steps."""
    listener, told = Listener(HttpOptions(limits=patient_limits(longest_wait_s=0.01))), threading.Event()

    async def run() -> None:
        kafka = MemoryKafka()
        world = told_in(kafka)
        await world.begin()
        await world.step(7, 1, wrote=(0, 3))
        await world.step(8, 2)
        told.set()
        source = MemorySource(kafka)
        await serve_interface(listener, NOBODY, source, make_registry(), ask=answer, deliveries=deliver)

    with ExitStack() as stack:
        stack.enter_context(listener.in_thread(run))
        assert told.wait(HANG_S)
        until(
            lambda: httpx.get(f"{listener.url}/health/ready", timeout=HANG_S).status_code == 200,
            "the server is ready",
        )
        yield listener.url
