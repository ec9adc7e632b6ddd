"""Submitting a pipeline: what is logged the first time, what the second, and what is refused."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kcontrol import KafkaInput, KafkaOutput, Pipeline, StepPolicy
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps import old_nodes
from kcontrol.apps.ask import ask_mode
from kcontrol.apps.leftovers import refuse_half_deleted
from kcontrol.apps.specs import all_specs
from kcontrol.apps.submit import submit
from kcontrol.core.log.keys import spec_key
from kcontrol.core.model import (
    Desired,
    DesiredMode,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelinePhase,
    PipelineSpec,
    Resume,
    Status,
)
from kcontrol.definition.resolve import QueryFacts
from kcontrol.errors import (
    ConfigurationError,
    InputGoneError,
    NotFoundError,
    RetriableError,
    SpecChangedError,
    TopicError,
)
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import StepsMaker
from tests.support.looking import control_view
from tests.support.owning import commit_at_end
from tests.support.patience import HANG_S
from tests.support.samples import boundary
from tests.support.transactions import TRANSACTION_MS

QUERY = QueryFacts("delays", ("delays",), "append", (), brings_key=False)
STATEFUL = QueryFacts("delays", ("delays",), "append", ("aggregate",), brings_key=False)


class Flights:
    """A pipeline whose topics exist, in parts that a test may change before it submits."""

    def __init__(self, settings: ClusterSettings, new_topic: TopicFactory) -> None:
        self.settings = settings.model_copy(update={"prefix": f"s{secrets.token_hex(4)}"})
        self.source = new_topic("flights", partitions=2)
        self.target = new_topic("delays", partitions=3)

    def pipeline(self, name: str = "flights", start: Any = "earliest", **changes: Any) -> Pipeline:
        inputs = [KafkaInput("flights", topic=self.source, starting_offsets=start)]
        outputs = [KafkaOutput("delays", topic=self.target)]
        return Pipeline(name, **{"inputs": inputs, "outputs": outputs, **changes})

    def submit(
        self, pipeline: Pipeline, queries: Sequence[QueryFacts] = (QUERY,), **options: Any
    ) -> PipelineSpec:
        return asyncio.run(submit(self.settings, pipeline, queries, **options))

    def produce(self, count: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        for _ in range(count):
            producer.produce(self.source, b"x", partition=partition)
        assert producer.flush(HANG_S) == 0

    def specs_logged(self, name: str = "flights") -> list[PipelineSpec]:
        async def read() -> list[PipelineSpec]:
            log = await KafkaControlLog.open(self.settings, name)
            try:
                return [
                    entry.record
                    for entry in await log.read_to_end()
                    if isinstance(entry.record, PipelineSpec)
                ]
            finally:
                await log.close()

        return asyncio.run(read())


@pytest.fixture
def flights(settings: ClusterSettings, topic_factory: TopicFactory) -> Flights:
    return Flights(settings, topic_factory)


def test_the_first_submission_logs_what_was_found_in_kafka(flights: Flights) -> None:
    flights.produce(5, partition=1)
    spec = flights.submit(flights.pipeline(start="latest"))
    admin = TopicAdmin(flights.settings)
    assert spec.inputs[0].start_offsets == (0, 5)
    assert spec.inputs[0].topic_id == admin.get(flights.source, "input").topic_id
    assert (spec.outputs[0].partitions, spec.outputs[0].topic_id) == (
        3,
        admin.get(flights.target, "output").topic_id,
    )
    assert flights.specs_logged() == [spec]


def test_the_same_pipeline_again_writes_nothing_and_begins_where_it_began(flights: Flights) -> None:
    flights.produce(5)
    first = flights.submit(flights.pipeline(start="latest"))
    flights.produce(5)
    assert flights.submit(flights.pipeline(start="latest")) == first
    assert flights.submit(flights.pipeline(start="earliest")) == first
    assert flights.specs_logged() == [first]


def test_what_may_change_is_logged_anew_with_the_old_beginning(flights: Flights) -> None:
    flights.produce(5)
    first = flights.submit(flights.pipeline(start="latest"))
    second = flights.submit(flights.pipeline(steps=StepPolicy(max_delay="7 s")))
    assert second.policy.max_delay_ms == 7_000
    assert second.inputs == first.inputs
    assert flights.specs_logged() == [first, second]


def test_another_structure_is_refused_unless_declared_compatible(flights: Flights) -> None:
    flights.produce(5)
    first = flights.submit(flights.pipeline(start="latest"))
    with pytest.raises(SpecChangedError, match=first.fingerprint):
        flights.submit(flights.pipeline(), [STATEFUL])
    assert flights.specs_logged() == [first]
    declared = flights.submit(flights.pipeline(compatible_with=[first.fingerprint]), [STATEFUL])
    assert declared.stateful
    assert declared.inputs[0].start_offsets == first.inputs[0].start_offsets


def test_without_state_the_number_of_nodes_may_change(flights: Flights) -> None:
    flights.produce(5)
    first = flights.submit(flights.pipeline(start="latest"))
    grown = flights.submit(flights.pipeline(nodes=2))
    assert (grown.nodes, grown.inputs[0].node_of, grown.inputs[0].start_offsets) == (
        2,
        (0, 1),
        first.inputs[0].start_offsets,
    )
    assert grown.compatible_with == (first.fingerprint,)
    assert flights.submit(flights.pipeline()).compatible_with == (grown.fingerprint,)


def test_with_state_it_may_only_before_the_first_step(flights: Flights) -> None:
    both = [KafkaInput("flights", topic=flights.source, partitioned_by="k")]
    flights.submit(flights.pipeline(inputs=both), [STATEFUL])
    assert flights.submit(flights.pipeline(inputs=both, nodes=2), [STATEFUL]).nodes == 2
    asyncio.run(_commit_step(flights.settings, "flights"))
    with pytest.raises(
        SpecChangedError,
        match=r"layout of 2 nodes.* step 1 in its log; this is nodes = 1.*kcontrol layout flights --nodes 1",
    ):
        flights.submit(flights.pipeline(inputs=both), [STATEFUL])


async def _commit_step(settings: ClusterSettings, pipeline: str) -> None:
    transaction = KafkaTransaction(settings, pipeline)
    try:
        producer = await transaction.init_producer(TRANSACTION_MS)
        await transaction.add_partitions(*producer, [(settings.names().steps_topic(pipeline), 0)])
        await commit_at_end(settings, transaction, producer, boundary(pipeline, 1, producer))
    finally:
        await transaction.close()


@asynccontextmanager
async def node_at_work(settings: ClusterSettings) -> AsyncIterator[None]:
    """Node 0 says every 0.2 s that it lives."""
    log = await KafkaControlLog.open(settings, "flights")
    (life,) = await log.append([NodeJoin("flights", 0, "u", "host", 1)])
    state = NodeState("flights", 0, life, NodePhase.RUNNING, 0, None, 0, 0, 0, (), "", 1, 0)

    async def beat() -> None:
        while True:
            await log.append([state])
            await asyncio.sleep(0.2)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await log.close()


def test_nodes_of_the_old_number_that_go_on_are_not_pushed_aside(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_nodes, "LONGEST_S", 3.0)
    flights.submit(flights.pipeline())

    async def both() -> None:
        async with node_at_work(flights.settings):
            with pytest.raises(
                ConfigurationError, match=r"runs with nodes = 1 \(node 0 is at work\): stop it first"
            ):
                await submit(flights.settings, flights.pipeline(nodes=2), [QUERY])

    asyncio.run(both())
    assert [spec.nodes for spec in flights.specs_logged()] == [1]


def test_a_node_of_the_new_number_is_not_taken_for_an_old_one(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node has submitted the new number since this one read the old: who speaks
    now is at work by the new one."""
    monkeypatch.setattr(old_nodes, "LONGEST_S", 3.0)
    flights.submit(flights.pipeline())
    flights.submit(flights.pipeline(nodes=2))

    async def late() -> None:
        async with node_at_work(flights.settings):
            await old_nodes.refuse_while_running(flights.settings, "flights", nodes=1, wanted=2)

    asyncio.run(late())


def test_two_nodes_of_a_new_number_may_start_at_once(flights: Flights) -> None:
    flights.submit(flights.pipeline())

    async def both() -> list[PipelineSpec]:
        one, other = (submit(flights.settings, flights.pipeline(nodes=2), [QUERY]) for _ in range(2))
        return await asyncio.gather(one, other)

    assert [spec.nodes for spec in asyncio.run(both())] == [2, 2]
    assert {spec.nodes for spec in flights.specs_logged()[1:]} == {2}


def test_two_pipelines_on_one_output_topic_are_refused(flights: Flights) -> None:
    flights.submit(flights.pipeline("first"))
    with pytest.raises(ConfigurationError, match="pipeline 'first'"):
        flights.submit(flights.pipeline("second"))


def test_a_missing_output_topic_is_an_error_unless_it_shall_be_created(flights: Flights) -> None:
    flights.target += "-missing"
    with pytest.raises(TopicError, match=f"output 'delays': there is no topic '{flights.target}'"):
        flights.submit(flights.pipeline())
    assert flights.submit(flights.pipeline(), output_partitions=4).outputs[0].partitions == 4


def test_a_missing_input_topic_is_an_error(flights: Flights) -> None:
    flights.source += "-missing"
    with pytest.raises(TopicError, match=f"input 'flights': there is no topic '{flights.source}'"):
        flights.submit(flights.pipeline())


def test_an_input_topic_that_was_made_anew_is_refused(flights: Flights, settings: ClusterSettings) -> None:
    flights.submit(flights.pipeline())
    admin = TopicAdmin(settings)
    admin.delete(flights.source)
    admin.create(flights.source, 2)
    with pytest.raises(InputGoneError, match="recreated"):
        flights.submit(flights.pipeline())


def test_specs_of_all_pipelines_are_found_whatever_partition_they_live_in(flights: Flights) -> None:
    names = {f"pipeline-{number}" for number in range(4)}
    for name in sorted(names):
        flights.target = f"{flights.settings.prefix}-{name}"
        flights.submit(flights.pipeline(name), output_partitions=1)
    assert set(asyncio.run(all_specs(flights.settings))) == names


async def _acknowledge(settings: ClusterSettings, phase: PipelinePhase) -> list[Desired | Resume]:
    """As a coordinator does: waits until something is wanted and says in its status that it has seen it."""
    log = await KafkaControlLog.open(settings, "flights")
    seen: list[Desired | Resume] = []
    try:
        async for chunk in log.tail():
            seen += [entry.record for entry in chunk if isinstance(entry.record, (Desired, Resume))]
            if seen and isinstance(seen[-1], Desired):
                await log.append([Status("flights", 1, phase, 3, "", (seen[-1].request_id,), 0, "", ())])
                return seen
    finally:
        await log.close()
    raise AssertionError("the tail ended")


@pytest.mark.parametrize(
    ("before", "mode", "written"),
    [
        (PipelinePhase.RUNNING, DesiredMode.PAUSED, [Desired]),
        (PipelinePhase.PAUSED, DesiredMode.RUNNING, [Desired]),
        (PipelinePhase.HALTED, DesiredMode.STOPPED, [Desired]),
        (PipelinePhase.HALTED, DesiredMode.RUNNING, [Resume, Desired]),
    ],
)
def test_a_request_returns_when_a_coordinator_acknowledges_it(
    flights: Flights, before: PipelinePhase, mode: DesiredMode, written: list[type]
) -> None:
    flights.submit(flights.pipeline())

    async def both() -> tuple[list[Desired | Resume], Status]:
        log = await KafkaControlLog.open(flights.settings, "flights")
        await log.append([Status("flights", 1, before, 3, "", (), 0, "", ())])
        await log.close()
        return await asyncio.gather(
            _acknowledge(flights.settings, PipelinePhase.RUNNING), ask_mode(flights.settings, "flights", mode)
        )

    seen, status = asyncio.run(both())
    assert [type(record) for record in seen] == written
    assert status.acknowledged == (seen[-1].request_id,)
    assert control_view(flights.settings, "flights").status() == status


def test_a_request_that_nobody_acknowledges_stays_in_the_log(flights: Flights) -> None:
    flights.submit(flights.pipeline())
    with pytest.raises(RetriableError, match="no coordinator has acted on it"):
        asyncio.run(ask_mode(flights.settings, "flights", DesiredMode.STOPPED, timeout_s=0.2))
    desired = control_view(flights.settings, "flights").desired()
    assert desired is not None
    assert desired.mode is DesiredMode.STOPPED


def test_a_pipeline_that_nobody_submitted_is_not_found(flights: Flights) -> None:
    flights.submit(flights.pipeline())
    with pytest.raises(NotFoundError, match="'planes'"):
        asyncio.run(ask_mode(flights.settings, "planes", DesiredMode.PAUSED))


def test_the_name_of_a_pipeline_that_was_deleted_half_way_is_not_free(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    maker = StepsMaker(settings, topic_factory)
    maker.step(1, {})
    cluster, name = maker.settings, maker.spec.pipeline

    async def scenario() -> None:
        await refuse_half_deleted(cluster, name)
        log = await KafkaControlLog.open(cluster, name)
        await log.append([], [spec_key(name)])
        await log.close()
        with pytest.raises(ConfigurationError, match="holds its steps up to 1: it was deleted half way"):
            await refuse_half_deleted(cluster, name)
        with pytest.raises(ConfigurationError, match=f"Run kcontrol delete {name} to its end"):
            await submit(cluster, maker.pipeline, maker.queries)
        await asyncio.to_thread(TopicAdmin(cluster).delete, cluster.names().steps_topic(name))
        assert await submit(cluster, maker.pipeline, maker.queries) == maker.spec

    asyncio.run(scenario())
