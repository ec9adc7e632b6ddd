"""The pipeline of docker/ may run on its three nodes, on the topics that its feed makes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from examples import departures, departures_feed
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec
from kcontrol.errors import ConfigurationError

QUERIES = (
    QueryFacts("carriers", ("carriers",), "update", ("stateStoreSave[carrier]",), brings_key=True),
    QueryFacts("late", ("late",), "append", (), brings_key=False),
)


def spec_with(partitions: int, output_partitions: int) -> Any:
    inputs = {"departures": FoundInput("id-d", (0,) * partitions)}
    outputs = {name: OutputFacts(f"id-{name}", output_partitions) for name in ("carriers", "late")}
    return build_spec(departures.pipeline, inputs, outputs, QUERIES)


def test_it_is_allowed_on_its_nodes_with_the_topics_of_the_feed() -> None:
    spec = spec_with(departures_feed.PARTITIONS, departures_feed.PARTITIONS)
    assert spec.nodes == departures.NODES == 3
    assert spec.stateful
    topics = {each.topic for each in (*spec.inputs, *spec.outputs)}
    assert topics == set(departures_feed.TOPICS)
    assert set(spec.inputs[0].node_of) == set(range(departures.NODES))


def test_it_would_not_be_with_other_numbers_of_partitions() -> None:
    with pytest.raises(ConfigurationError, match="same number of partitions"):
        spec_with(departures_feed.PARTITIONS, departures_feed.PARTITIONS + 1)


def test_the_feed_gives_what_the_pipeline_reads() -> None:
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    given = [departures_feed.departure(dice) for _ in range(500)]
    columns = [column.split() for column in str(departures.pipeline.inputs[0].schema).split(", ")]
    kinds = {"STRING": str, "INT": int}
    for record in given:
        assert list(record) == [name for name, _ in columns], f"seed {seed}"
        assert all(isinstance(record[name], kinds[kind]) for name, kind in columns), f"seed {seed}"
    assert {record["carrier"] for record in given} == set(departures_feed.CARRIERS), f"seed {seed}"
    assert any(record["delay_min"] >= departures.LATE_MIN for record in given), f"seed {seed}"
