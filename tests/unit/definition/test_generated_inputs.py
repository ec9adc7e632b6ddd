"""Inputs without a producer, as they are defined: what is refused, and what their address is."""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol import ClockInput, GeneratorInput, KafkaOutput, Pipeline
from kcontrol.core.model import PipelineSpec
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec, fingerprint
from kcontrol.definition.spec_rules import check_spec
from kcontrol.definition.succession import succeed
from kcontrol.errors import ConfigurationError, SpecChangedError
from kcontrol.wire.addresses import ROWS_ID

QUERY = QueryFacts("q", ("out",), "append", (), brings_key=False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give rows_per_second, or rows"),
        ({"rows": 1, "ramp_up": "1 s"}, "ramp_up = '1 s' needs rows_per_second"),
        ({"rows": 0}, "rows = 0: must be greater"),
        ({"rows": 1, "randoms": ["value"]}, "'value' is there already"),
        ({"rows": 1, "randoms": ["a", "a"]}, "'a' is there already"),
        ({"rows": 1, "randoms": ["a-b"]}, "'a-b' is not allowed"),
        ({"rows": 1, "start": "2026-01-01"}, "must say its time zone"),
        ({"rows": 1, "start": "yesterday"}, "start = 'yesterday'"),
        ({"rows": 1, "topic": "orders"}, "there is no setting 'topic'"),
    ],
)
def test_what_no_generator_can_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"GeneratorInput 'load'.*{said}"):
        GeneratorInput("load", **settings)


def test_a_clock_needs_a_length_of_time() -> None:
    with pytest.raises(ConfigurationError, match="every = '0 s'"):
        ClockInput("ticks", every="0 s")


def _spec(
    source: GeneratorInput | ClockInput, before: PipelineSpec | None = None, now_ms: int = 5_000
) -> PipelineSpec:
    pipeline = Pipeline("p", inputs=[source], outputs=[KafkaOutput("out", topic="o")])
    address, begins = source.address(before.inputs[0].topic if before else "", now_ms)
    found = {source.name: FoundInput(ROWS_ID, begins, address)}
    made = build_spec(pipeline, found, {"out": OutputFacts("id", 2)}, [QUERY])
    check_spec(made)
    return succeed(made, before, "")


def test_a_generator_that_is_started_again_goes_on_from_the_moment_when_it_first_began() -> None:
    source = GeneratorInput("load", rows_per_second=10, partitions=3)
    first = _spec(source)
    assert first.inputs[0].topic.endswith("start_ms=5000")
    assert first.inputs[0].node_of == (0, 0, 0)
    assert _spec(source, first, now_ms=9_000) == first
    with pytest.raises(SpecChangedError):
        _spec(GeneratorInput("load", rows_per_second=11, partitions=3), first, now_ms=9_000)


def test_a_clock_begins_with_the_next_tick_and_goes_on_from_it() -> None:
    source = ClockInput("ticks", every="2 s")
    first = _spec(source)
    assert (first.inputs[0].topic, first.inputs[0].start_offsets) == ("clock:every_ms=2000", (3,))
    assert _spec(source, first, now_ms=90_000) == first


def test_what_makes_other_rows_is_another_fingerprint() -> None:
    def of(**settings: Any) -> str:
        source = GeneratorInput("load", rows_per_second=10, **settings)
        return fingerprint(Pipeline("p", inputs=[source], outputs=[KafkaOutput("out", topic="o")]), [QUERY])

    others = [
        {},
        {"seed": 1},
        {"randoms": []},
        {"partitions": 2},
        {"start": "2026-01-01T00:00:00Z"},
        {"ramp_up": "1 s"},
    ]
    assert len({of(**settings) for settings in others}) == len(others)


def test_the_end_of_a_generator_is_known_before_it_begins() -> None:
    assert GeneratorInput("load", rows=7, partitions=3).last_ends() == (3, 2, 2)
    assert GeneratorInput("load", rows_per_second=7).last_ends() == ()
    assert ClockInput("ticks", every="1 s").last_ends() == ()
