"""From the definition to the spec that is logged: what goes in, what the fingerprint
covers, several nodes, succession."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol import Checkpoint, KafkaInput, KafkaOutput, Layout, Limits, Pipeline, Rebalance, StepPolicy
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Assignment,
    BadRecords,
    CheckpointSpec,
    InputSpec,
    LayoutSpec,
    OutputSpec,
    PipelineSpec,
    RebalanceSpec,
    StepPolicySpec,
    WatermarkPolicy,
    WatermarkSpec,
)
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec, start_offsets
from kcontrol.definition.succession import check_resize, refuse_shared_outputs, succeed
from kcontrol.errors import ConfigurationError, InputGoneError, SpecChangedError
from tests.unit.core.made import boundary

BASE: dict[str, Any] = {
    "inputs": [
        KafkaInput(
            "flights", topic="flights", value_format="json", schema="carrier STRING", partitioned_by="carrier"
        )
    ],
    "outputs": [KafkaOutput("delays", topic="delays", key="carrier", value_format="json")],
}
QUERIES = (QueryFacts("delays", ("delays",), "append", (), brings_key=False),)
STATEFUL = (replace(QUERIES[0], stateful_operators=("stateStoreSave[carrier]",)),)
FACTS: dict[str, Any] = {
    "inputs": {"flights": FoundInput("id-f", (5, 6, 7, 8))},
    "outputs": {"delays": OutputFacts("id-d", 4), "flights.dead_letter": OutputFacts("id-x", 1)},
}


def spec_of(
    queries: tuple[QueryFacts, ...] = QUERIES, facts: dict[str, Any] = FACTS, **changes: Any
) -> PipelineSpec:
    return build_spec(Pipeline("late", **{**BASE, **changes}), facts["inputs"], facts["outputs"], queries)


def test_everything_is_in_the_spec() -> None:
    spec = spec_of(
        STATEFUL,
        nodes=2,
        steps=StepPolicy(min_records=3, max_delay="1 s", max_records=9, clock="2 s"),
        layout=Layout(max_tasks=4, records_per_task=100, shuffle_partitions=3),
        checkpoint=Checkpoint("file:///c", every="5 s", keep=3),
        compatible_with=["0" * 64],
    )
    assert spec == PipelineSpec(
        pipeline="late",
        fingerprint=spec.fingerprint,
        compatible_with=("0" * 64,),
        nodes=2,
        queries=("delays",),
        stateful=True,
        inputs=(
            InputSpec(
                "flights",
                "flights",
                "id-f",
                (5, 6, 7, 8),
                (0, 1, 0, 1),
                "json",
                BadRecords.HALT,
                "",
                "carrier",
                value_schema="carrier STRING",
            ),
        ),
        outputs=(OutputSpec("delays", "delays", "id-d", 4, "carrier", "json", "exact"),),
        policy=StepPolicySpec(3, 1_000, 9, 2_000),
        layout=LayoutSpec(4, 100, 3),
        limits=Limits().to_spec(),
        checkpoint=CheckpointSpec("file:///c", 5_000, 3, -1),
        kept_in_place=("delays",),
    )


def test_how_state_is_divided_anew_is_in_the_spec_and_not_in_the_fingerprint() -> None:
    assert Rebalance().to_spec() == RebalanceSpec(600_000, 130, 3, 16_000_000, 600_000)
    spec = spec_of(
        STATEFUL, rebalance=Rebalance(every="1 h", when=1.57, checkpoints=2, least_bytes=5, timeout=9)
    )
    assert spec.rebalance == RebalanceSpec(3_600_000, 157, 2, 5, 9)
    assert spec_of(STATEFUL).rebalance is None
    assert spec.fingerprint == spec_of(STATEFUL).fingerprint


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"checkpoint": None}, "moves state by way of checkpoints, and checkpoint = None: give it"),
        (
            {"outputs": [KafkaOutput("delays", topic="delays", partitioner="shard")]},
            "gives shards to other nodes, and output 'delays' has partitioner = 'shard'",
        ),
    ],
)
def test_state_that_can_not_be_divided_anew_is_refused_before_anything_starts(
    changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"pipeline 'late': rebalance {why}"):
        spec_of(STATEFUL, rebalance=Rebalance(), **changes)


def test_a_dead_letter_topic_is_one_more_output() -> None:
    source = KafkaInput(
        "flights",
        topic="f",
        value_format="json",
        schema="a INT",
        on_bad_record="dead_letter",
        dead_letter_topic="bad",
    )
    spec = spec_of(inputs=[source])
    assert spec.inputs[0].dead_letter_output == "flights.dead_letter"
    assert spec.outputs[1:] == (OutputSpec("flights.dead_letter", "bad", "id-x", 1, "", "raw", "exact"),)


def test_how_offsets_without_a_record_are_told_and_passed_over_is_in_the_spec() -> None:
    source = KafkaInput("flights", topic="flights", look_bytes_per_s=1 << 20)
    spec = spec_of(inputs=[source], steps=StepPolicy(gaps_delay="5 min"))
    assert (spec.inputs[0].look_bytes_per_s, spec.policy.gaps_delay_ms) == (1 << 20, 300_000)
    assert (spec_of().inputs[0].look_bytes_per_s, spec_of().policy.gaps_delay_ms) == (4 << 20, 60_000)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": StepPolicy(max_records=5)},
        {"steps": StepPolicy(gaps_delay="5 s")},
        {"inputs": [replace(BASE["inputs"][0], look_bytes_per_s=1)]},
        {"limits": Limits(max_attempts=9)},
        {"checkpoint": Checkpoint("file:///elsewhere")},
        {"compatible_with": ["1" * 64]},
        {
            "outputs": [
                KafkaOutput("delays", topic="delays", key="carrier", value_format="json", compression="zstd")
            ]
        },
    ],
)
def test_what_may_change_between_two_incarnations_is_not_in_the_fingerprint(change: dict[str, Any]) -> None:
    assert spec_of(**change).fingerprint == spec_of().fingerprint


def test_everything_that_state_and_history_depend_on_is_in_the_fingerprint() -> None:
    flights = {
        "topic": "flights",
        "value_format": "json",
        "schema": "carrier STRING",
        "partitioned_by": "carrier",
    }
    delays = {"topic": "delays", "key": "carrier", "value_format": "json"}
    changed_inputs: list[dict[str, Any]] = [
        {"topic": "other"},
        {"schema": "carrier INT"},
        {"on_bad_record": "skip"},
    ]
    changed_outputs: list[dict[str, Any]] = [
        {"topic": "other"},
        {"key": "origin"},
        {"digest": "count"},
        {"value_format": "avro"},
    ]
    fingerprints = [
        spec_of().fingerprint,
        spec_of(STATEFUL).fingerprint,
        spec_of((replace(QUERIES[0], mode="update"),)).fingerprint,
        spec_of((replace(QUERIES[0], name="other"),)).fingerprint,
        spec_of(nodes=2).fingerprint,
        spec_of(layout=Layout(shuffle_partitions=5)).fingerprint,
        *(
            spec_of(inputs=[KafkaInput("flights", **{**flights, **each})]).fingerprint
            for each in changed_inputs
        ),
        *(
            spec_of(outputs=[KafkaOutput("delays", **{**delays, **each})]).fingerprint
            for each in changed_outputs
        ),
    ]
    assert len(set(fingerprints)) == len(fingerprints)


def test_the_fingerprint_is_the_same_for_ever() -> None:
    """Logs hold it: a version that made another one of the same definition would refuse every pipeline that
    runs."""
    assert spec_of().fingerprint == "9332df63764377c52ed49a29bf264bdba483909f4c46c201a995d63cc2e590ae"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("earliest", (5, 6, 7)),
        ("latest", (9, 6, 8)),
        ({}, (5, 6, 7)),
        ({0: 8, 1: 6}, (8, 6, 7)),
        ({2: 8}, (5, 6, 8)),
    ],
)
def test_where_the_first_step_begins(setting: Any, expected: tuple[int, ...]) -> None:
    assert (
        start_offsets(KafkaInput("a", topic="t", starting_offsets=setting), [5, 6, 7], [9, 6, 8]) == expected
    )


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({3: 0}, "topic 't' has no partition 3: it has 3"),
        ({0: 4}, "holds offsets 5 to 9; 4 is not"),
        ({1: 7}, "6 to 6; 7 is not"),
    ],
)
def test_where_it_can_not_begin(setting: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"KafkaInput 'a': starting_offsets: .*{told}"):
        start_offsets(KafkaInput("a", topic="t", starting_offsets=setting), [5, 6, 7], [9, 6, 8])


UNSAID = KafkaInput("flights", topic="flights")
UNKEYED = KafkaOutput("delays", topic="delays", value_format="json")
RAW = KafkaOutput("delays", topic="delays")
BY_ORIGIN = KafkaOutput("delays", topic="delays", value_format="json", key="origin")
NARROW = {**FACTS, "outputs": {"delays": OutputFacts("id-d", 1)}}
WIDER = {**FACTS, "outputs": {"delays": OutputFacts("id-d", 8)}}


@pytest.mark.parametrize(
    ("queries", "facts", "changes", "told"),
    [
        (QUERIES, FACTS, {"inputs": [UNSAID]}, "output 'delays' has keys, and input 'flights' does not say"),
        (
            STATEFUL,
            FACTS,
            {"inputs": [UNSAID], "outputs": [UNKEYED]},
            "it keeps state or groups rows, and input 'flights' does not say",
        ),
        (
            (replace(QUERIES[0], gathers=True),),
            FACTS,
            {"inputs": [UNSAID], "outputs": [UNKEYED]},
            "it keeps state or groups rows, and input 'flights' does not say",
        ),
        (
            (replace(QUERIES[0], brings_key=True),),
            FACTS,
            {"inputs": [UNSAID], "outputs": [RAW]},
            "output 'delays' has keys, and input",
        ),
        (
            QUERIES,
            FACTS,
            {"outputs": [BY_ORIGIN]},
            "has the key 'origin', but inputs are partitioned by carrier",
        ),
        (QUERIES, WIDER, {}, "but input 'flights' has 4, output 'delays' has 8"),
        (
            QUERIES,
            NARROW,
            {"inputs": [UNSAID], "outputs": [UNKEYED]},
            "has 1 partitions, so some nodes could write nothing",
        ),
        (QUERIES, FACTS, {"nodes": 5}, "at most 4 partitions, so some nodes would have nothing to read"),
    ],
)
def test_what_could_be_wrong_on_several_nodes_is_refused(
    queries: Any, facts: Any, changes: Any, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        spec_of(queries, facts, **{"nodes": 2, **changes})
    if "nodes" not in changes:
        assert spec_of(queries, facts, **changes).nodes == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"scattered": ("groups by origin",)},
            r"query 'delays' groups by origin, but input 'flights' is partitioned by 'carrier': .* use one node",
        ),
        (
            {"has_watermark": True},
            "query 'delays' has a watermark, and every node would have one of its own.* kcontrol.exchange.* or use one node",
        ),
    ],
)
def test_what_needs_rows_or_the_watermark_of_other_nodes_is_refused(
    change: dict[str, Any], told: str
) -> None:
    queries = (replace(STATEFUL[0], **change),)
    with pytest.raises(ConfigurationError, match=told):
        spec_of(queries, nodes=2)
    assert spec_of(queries).nodes == 1


def test_what_is_right_on_several_nodes_is_accepted() -> None:
    assert spec_of(STATEFUL, nodes=2).nodes == 2
    assert spec_of(nodes=2, inputs=[UNSAID], outputs=[UNKEYED], facts=WIDER).nodes == 2


def test_the_same_definition_goes_on_where_the_earlier_one_began() -> None:
    earlier = replace(spec_of(), compatible_with=("2" * 64,))
    later = spec_of(facts={**FACTS, "inputs": {"flights": FoundInput("id-f", (50, 60, 70, 80, 90))}})
    succeeded = succeed(later, earlier)
    assert succeeded.inputs[0].start_offsets == (5, 6, 7, 8, 0)
    assert succeeded.compatible_with == ("2" * 64,)
    assert succeed(later, None) == later


def test_added_partitions_are_refused_where_the_state_of_keys_is_on_several_nodes() -> None:
    wider: dict[str, Any] = {
        "inputs": {"flights": FoundInput("id-f", (0,) * 8)},
        "outputs": {"delays": OutputFacts("id-d", 8)},
    }
    assert len(succeed(spec_of(STATEFUL, wider), spec_of(STATEFUL)).inputs[0].start_offsets) == 8
    with pytest.raises(
        ConfigurationError, match="topic 'flights' has 8 partitions, the pipeline was made with 4; on 2 nodes"
    ) as refused:
        succeed(spec_of(STATEFUL, wider, nodes=2), spec_of(STATEFUL, nodes=2))
    assert "anew: with kcontrol.exchange() in place of partitioned_by= it takes up" in str(refused.value)
    assert len(succeed(spec_of(facts=wider, nodes=2), spec_of(nodes=2)).inputs[0].start_offsets) == 8


def test_a_change_must_be_declared() -> None:
    earlier = spec_of()
    with pytest.raises(SpecChangedError, match=f"compatible_with=.'{earlier.fingerprint}'.") as refused:
        succeed(spec_of(nodes=2), earlier)
    assert "nodes was 1, is 2" in str(refused.value)
    declared = succeed(spec_of(nodes=2, compatible_with=[earlier.fingerprint]), earlier)
    assert declared.nodes == 2
    assert succeed(spec_of(nodes=2), declared).compatible_with == (earlier.fingerprint,)


def test_a_pipeline_without_state_may_change_its_number_of_nodes() -> None:
    one, two = spec_of(), spec_of(nodes=2)
    check_resize(two, one, steps_of(one, 7))
    grown = succeed(two, one, of_earlier_size=one.fingerprint)
    assert (grown.nodes, grown.inputs[0].node_of, grown.compatible_with) == (
        2,
        (0, 1, 0, 1),
        (one.fingerprint,),
    )
    shrunk = succeed(one, grown, of_earlier_size=two.fingerprint)
    assert (shrunk.nodes, shrunk.compatible_with) == (1, (two.fingerprint,))
    with pytest.raises(SpecChangedError, match="nodes was 1, is 2"):
        succeed(two, one, of_earlier_size="e" * 64)


def test_a_pipeline_without_state_has_the_nodes_of_its_layout_once_that_was_changed() -> None:
    """Who reads which partition is in its log since; by another number of nodes half of its input would not be read."""
    one, two = spec_of(), spec_of(nodes=2)
    given = Assignment("late", 1, 7, 2, (0, 1), (), (), 0, 9, "r", 1)
    check_resize(two, one, steps_of(one, 7, given))
    for spec in (one, spec_of(nodes=3)):
        with pytest.raises(SpecChangedError, match=r"layout of 2 nodes.*kcontrol layout late --nodes"):
            check_resize(spec, two, steps_of(one, 7, given))


def steps_of(spec: PipelineSpec, last: int, *assignments: Assignment) -> StepsView:
    """A log whose last step is that one."""
    made = replace(boundary(last), nodes=spec.nodes) if last else None
    return StepsView(spec.pipeline, last=made, assignments=assignments)


def test_a_pipeline_with_state_may_only_once_its_layout_is_of_so_many_nodes() -> None:
    one, two = spec_of(STATEFUL), spec_of(STATEFUL, nodes=2)
    check_resize(two, one, steps_of(one, 0))
    check_resize(one, one, steps_of(one, 7))
    with pytest.raises(
        SpecChangedError, match=r"layout of 1 nodes.*and step 7 .*kcontrol layout late --nodes 2"
    ):
        check_resize(two, one, steps_of(one, 7))
    given = Assignment("late", 1, 7, 2, (0, 1), (), (), 1, 9, "r", 1)
    check_resize(two, one, steps_of(one, 7, given))
    with pytest.raises(SpecChangedError, match=r"layout of 2 nodes.*this is nodes = 1"):
        check_resize(one, one, steps_of(one, 7, given))
    with pytest.raises(SpecChangedError, match="has changed together with its number of nodes"):
        check_resize(replace(two, queries=("other",)), one, steps_of(one, 7, given))
    shared = replace(two, watermarks=(WatermarkSpec("delays", (10,), WatermarkPolicy.MIN),))
    check_resize(shared, one, steps_of(one, 7, given))
    shared = replace(two, watermarks=(WatermarkSpec("delays", (10, 0), WatermarkPolicy.MIN),))
    with pytest.raises(SpecChangedError, match="has several watermarks, which one node alone kept"):
        check_resize(shared, one, steps_of(one, 7, given))
    with pytest.raises(
        SpecChangedError, match=r"through exchange 'mine' comes from a query that keeps state"
    ):
        check_resize(two, one, steps_of(one, 7, given), ["mine"])
    three = replace(spec_of(STATEFUL, nodes=3), queries=two.queries)
    check_resize(three, two, steps_of(two, 7, replace(given, nodes=3)), ["mine"])


def test_a_pipeline_with_state_may_only_once_its_layout_is_of_so_many_shards() -> None:
    two, eight = spec_of(STATEFUL), spec_of(STATEFUL, layout=Layout(shuffle_partitions=8))
    check_resize(eight, two, steps_of(two, 0))
    with pytest.raises(
        SpecChangedError, match=r"layout of 2 shards.*step 7 .*kcontrol layout late --shards 8"
    ):
        check_resize(eight, two, steps_of(two, 7))
    given = Assignment("late", 1, 7, 1, (0,) * 8, (), (), 0, 9, "r", 1)
    check_resize(eight, two, steps_of(two, 7, given))
    with pytest.raises(SpecChangedError, match=r"layout of 8 shards.*this is Layout\(shuffle_partitions=2\)"):
        check_resize(two, two, steps_of(two, 7, given))


def test_a_change_that_only_the_fingerprint_shows_is_explained() -> None:
    with pytest.raises(SpecChangedError, match="in a schema, an output mode or a stateful operator"):
        succeed(spec_of(STATEFUL), spec_of())


def test_a_topic_that_was_made_anew_is_refused() -> None:
    later = spec_of(facts={**FACTS, "inputs": {"flights": FoundInput("id-2", (0, 0, 0, 0))}})
    with pytest.raises(
        InputGoneError, match=r"topic 'flights' was recreated .its id was id-f, now it is id-2"
    ):
        succeed(later, spec_of())


def test_two_pipelines_on_one_output_topic_are_refused() -> None:
    spec = spec_of()
    refuse_shared_outputs(spec, [spec, replace(spec, pipeline="other", outputs=())])
    with pytest.raises(
        ConfigurationError, match="topic 'delays' belongs to output 'delays' of pipeline 'other'"
    ):
        refuse_shared_outputs(spec, [replace(spec, pipeline="other")])
