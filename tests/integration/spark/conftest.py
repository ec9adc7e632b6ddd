"""One Spark session for all tests of the engine, and a maker of steppers, each of which plays
the coordinator of a pipeline."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.session.build import session
from kcontrol.adapters.spark.session.conf import with_setting
from kcontrol.adapters.spark.state.shards import COMMIT_VALIDATION
from kcontrol.core.step.assignment import dealt
from kcontrol.definition.inputs import Input
from kcontrol.definition.parts import KafkaInput, KafkaOutput, TaskLayout
from kcontrol.definition.pipeline import Pipeline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import Names
from tests.conftest import TopicFactory
from tests.integration.spark.exchange_queries import Bind, pipeline_of
from tests.integration.spark.stepper import Stepper
from tests.support.dice import say_seed, seed_of_run
from tests.support.sharded import SHARDS, Cluster, Kind
from tests.support.topics import create_topic

Scenario = Callable[[Stepper], Awaitable[None]]
RunScenario = Callable[..., None]
Play = Callable[..., None]
MakeCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("kcontrol-tests", master="local[2]")
    yield spark
    spark.stop()


@pytest.fixture
def cluster(spark: SparkSession, tmp_path: Path) -> Iterator[MakeCluster]:
    """`cluster(kind, nodes)` makes nodes with shards of their own, and one that runs all beside them.

    owner: of each shard, in place of shards that are dealt to the nodes. seed: of the rows; None: the run's, which is said.
    """
    made: list[Cluster] = []

    def make(
        kind: Kind, nodes: int = 2, *, owner: tuple[int, ...] | None = None, seed: int | None = None
    ) -> Cluster:
        if seed is None:
            seed = seed_of_run()
            say_seed(seed)
        made.append(Cluster(spark, tmp_path, kind, owner or dealt(SHARDS, nodes), seed))
        return made[-1]

    with with_setting(spark, COMMIT_VALIDATION, "false"):
        yield make
        for each in made:
            each.stop()


@pytest.fixture
def play(spark: SparkSession, settings: ClusterSettings, tmp_path: Path) -> Play:
    """`play(pipeline, scenario)` awaits `scenario(stepper)` with an engine of a pipeline whose topics are there."""

    def run(pipeline: Pipeline, scenario: Scenario, allow_nondeterministic: bool = False) -> None:
        create_topic(settings, Names(settings.prefix).steps_topic(pipeline.name))

        async def body() -> None:
            stepper = Stepper(
                spark, settings, pipeline, tmp_path, allow_nondeterministic=allow_nondeterministic
            )
            try:
                await scenario(stepper)
            finally:
                await stepper.close()

        asyncio.run(body())

    return run


@pytest.fixture
def run_scenario(play: Play, topic_factory: TopicFactory) -> RunScenario:
    """`run_scenario(queries, scenario, inputs={name: partitions}, ...)` makes topics, a pipeline and its
    engine, then awaits `scenario(stepper)`.

    queries: functions for `@pipeline.query`. inputs, outputs: name to (partitions, more arguments). generated: inputs
    beside them.
    """

    def run(
        queries: list[Callable[..., Any]],
        scenario: Scenario,
        inputs: dict[str, tuple[int, dict[str, Any]]],
        outputs: dict[str, tuple[int, dict[str, Any]]],
        layout: TaskLayout | None = None,
        allow_nondeterministic: bool = False,
        plan_once: bool = True,
        nodes: int = 1,
        generated: Sequence[Input] = (),
    ) -> None:
        pipeline = Pipeline(
            f"p{secrets.token_hex(4)}",
            inputs=[
                *generated,
                *(
                    KafkaInput(name, topic=topic_factory(name, n), **_with_topics(more, topic_factory))
                    for name, (n, more) in inputs.items()
                ),
            ],
            outputs=[
                KafkaOutput(name, topic=topic_factory(name, n), **more) for name, (n, more) in outputs.items()
            ],
            layout=layout or TaskLayout(),
            plan_once=plan_once,
            nodes=nodes,
        )
        for query in queries:
            pipeline.query(query)
        play(pipeline, scenario, allow_nondeterministic)

    return run


def _with_topics(more: dict[str, Any], topic_factory: TopicFactory) -> dict[str, Any]:
    """`dead_letter_topic` may be a number of partitions: the topic is then made."""
    wanted = more.get("dead_letter_topic")
    return {**more, "dead_letter_topic": topic_factory("dead", wanted)} if isinstance(wanted, int) else more


@pytest.fixture
def bound(spark: SparkSession) -> Iterator[Bind]:
    """What a pipeline with one query becomes: `bound(query, nodes=2, ...)`."""
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield lambda query, nodes=2, **more: bind(pipeline_of(query, nodes, **more), spark, server.address)
    server.close()
