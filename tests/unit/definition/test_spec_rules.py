"""What a ready-made definition must be, before anybody works by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import CheckpointSpec, PipelineSpec, RebalanceSpec
from kcontrol.definition.spec_rules import check_spec, succeed_unchanged
from kcontrol.errors import ConfigurationError, SpecChangedError
from kcontrol.wire.json import from_json, to_json
from tests.unit.core.made import LIMITS, SPEC

GOOD = replace(SPEC, fingerprint="f" * 64)
REBALANCE = RebalanceSpec(600_000, 130, 3, 16_000_000, 600_000)
INPUT, OUTPUT = GOOD.inputs[0], GOOD.outputs[0]


def test_what_a_node_has_submitted_is_good_and_survives_json() -> None:
    check_spec(GOOD)
    check_spec(replace(GOOD, checkpoint=CheckpointSpec("file:///c", 60_000, 2, -1)))
    check_spec(replace(GOOD, rebalance=REBALANCE))
    for good in (GOOD, replace(GOOD, rebalance=REBALANCE)):
        assert from_json(PipelineSpec, to_json(good)) == good


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (replace(GOOD, pipeline="P"), "pipeline name 'P'"),
        (replace(GOOD, fingerprint="f1"), "'f1' is not a fingerprint"),
        (replace(GOOD, nodes=0), "nodes = 0"),
        (replace(GOOD, queries=()), "queries: there must be one"),
        (replace(GOOD, inputs=(INPUT, INPUT)), "inputs: in, in: each must be there once"),
        (replace(GOOD, inputs=(replace(INPUT, topic="a/b"),)), "not a Kafka topic name"),
        (replace(GOOD, inputs=(replace(INPUT, node_of=(0, 1)),)), "node_of names a node that there is not"),
        (replace(GOOD, inputs=(replace(INPUT, start_offsets=(5,)),)), "an entry for each partition"),
        (replace(GOOD, inputs=(replace(INPUT, start_offsets=(5, -1)),)), "must not be negative"),
        (replace(GOOD, inputs=(replace(INPUT, value_format="xml"),)), "value_format = 'xml'"),
        (replace(GOOD, inputs=(replace(INPUT, dead_letter_output="out"),)), "dead_letter_output = 'out'"),
        (
            replace(GOOD, inputs=(replace(INPUT, look_bytes_per_s=0),)),
            "look_bytes_per_s = 0: must be 1 or more",
        ),
        (replace(GOOD, policy=replace(GOOD.policy, gaps_delay_ms=0)), "gaps_delay"),
        (replace(GOOD, outputs=(replace(OUTPUT, digest="sum"),)), "digest = 'sum'"),
        (replace(GOOD, outputs=(replace(OUTPUT, partitions=0),)), "partitions = 0"),
        (replace(GOOD, outputs=(OUTPUT, replace(OUTPUT, name="more"))), "topics of outputs"),
        (replace(GOOD, policy=replace(GOOD.policy, min_records=11)), "more than max_records"),
        (replace(GOOD, policy=replace(GOOD.policy, max_delay_ms=2**62)), "max_delay"),
        (replace(GOOD, layout=replace(GOOD.layout, max_tasks=0)), "max_tasks"),
        (
            replace(GOOD, limits=replace(LIMITS, step_timeout_ms=60_000)),
            "must be shorter than transaction_timeout",
        ),
        (replace(GOOD, checkpoint=CheckpointSpec("file:///c", 0, 2, -1)), "every"),
        (replace(GOOD, rebalance=replace(REBALANCE, when_percent=110)), "when"),
        (
            replace(GOOD, policy=replace(GOOD.policy, clock_ms=2**64)),
            "policy.clock_ms: 18446744073709551616 is too large",
        ),
        (replace(GOOD, inputs=(replace(INPUT, partitioned_by="\ud800"),)), "partitioned_by: is not text"),
    ],
)
def test_what_no_pipeline_can_have_is_named(wrong: PipelineSpec, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_spec(wrong)
    assert text in str(refused.value)


def test_of_a_pipeline_that_is_there_only_settings_may_change() -> None:
    faster = replace(
        GOOD, policy=replace(GOOD.policy, max_delay_ms=7), limits=replace(LIMITS, max_attempts=9)
    )
    assert succeed_unchanged(faster, GOOD) == faster
    assert succeed_unchanged(GOOD, None) == GOOD
    evening = replace(GOOD, rebalance=REBALANCE)
    assert (succeed_unchanged(evening, GOOD), succeed_unchanged(GOOD, evening)) == (evening, GOOD)
    with pytest.raises(
        SpecChangedError, match=r"with other stateful, inputs; only policy, limits, checkpoint and rebalance"
    ):
        succeed_unchanged(replace(GOOD, stateful=False, inputs=(replace(INPUT, start_offsets=(6, 0)),)), GOOD)
