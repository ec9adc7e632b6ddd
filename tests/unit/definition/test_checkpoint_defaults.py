"""Checkpoints without being told: where they go, what is kept, and what is said of a place that may be
lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol import Checkpoint, KafkaInput, KafkaOutput, Pipeline
from kcontrol.core.model import IN_WORK_DIR, CheckpointSpec, Logged, NodeJoin, PipelineSpec
from kcontrol.definition.parts import KEPT_STEPS
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec
from kcontrol.definition.spec_rules import check_spec
from kcontrol.errors import ConfigurationError
from kcontrol.views.checkpoint_facts import checkpoint_warnings, saved_where
from kcontrol.views.pipeline_facts import status_of
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.made import SPEC

STATELESS = (QueryFacts("q", ("out",), "append", (), brings_key=False),)
STATEFUL = (replace(STATELESS[0], stateful_operators=("stateStoreSave[a]",)),)


def spec_of(queries: tuple[QueryFacts, ...], **settings: Any) -> PipelineSpec:
    pipeline = Pipeline(
        "p", inputs=[KafkaInput("in", topic="i")], outputs=[KafkaOutput("out", topic="o")], **settings
    )
    return build_spec(pipeline, {"in": FoundInput("I", (0,))}, {"out": OutputFacts("O", 1)}, queries)


def test_a_pipeline_with_state_is_saved_beside_its_nodes_work_without_being_told() -> None:
    spec = spec_of(STATEFUL)
    assert spec.checkpoint == CheckpointSpec(IN_WORK_DIR, 60_000, 2, -1, shared=False)
    check_spec(spec)


def test_a_pipeline_without_state_makes_them_and_saves_nothing() -> None:
    spec = spec_of(STATELESS)
    assert spec.checkpoint == CheckpointSpec(IN_WORK_DIR, 60_000, 2, -1)
    assert saved_where(spec) == ""
    check_spec(spec)
    assert spec_of(STATELESS, checkpoint=Checkpoint(every="5 s", keep_steps=4)).checkpoint.keep_steps == 4
    assert spec_of(STATELESS, checkpoint=Checkpoint("file:///c")).checkpoint.location == "file:///c"
    assert spec_of(STATELESS, checkpoint=None).checkpoint == CheckpointSpec("", 0, 0, -1)


def test_nowhere_must_be_said() -> None:
    assert spec_of(STATEFUL, checkpoint=None).checkpoint == CheckpointSpec("", 0, 0, -1)


@pytest.mark.parametrize(
    ("checkpoint", "shared", "keep_steps"),
    [
        (Checkpoint("s3://bucket/path?region=x"), True, KEPT_STEPS),
        (Checkpoint("hdfs://name:8020/path"), True, KEPT_STEPS),
        (Checkpoint("file:///mnt/all", shared=True), True, KEPT_STEPS),
        (Checkpoint("file:///c"), False, -1),
        (Checkpoint(), False, -1),
        (Checkpoint("s3://bucket/path", keep_steps=None), True, -1),
        (Checkpoint("s3://bucket/path", keep_steps=7), True, 7),
        (Checkpoint(keep_steps=7), False, 7),
    ],
)
def test_old_steps_are_dropped_by_default_where_the_log_is_not_all_that_is_left(
    checkpoint: Checkpoint, shared: bool, keep_steps: int
) -> None:
    made = checkpoint.to_spec()
    assert (made.shared, made.keep_steps) == (shared, keep_steps)


def test_a_nodes_own_disk_is_not_shared_whatever_is_said() -> None:
    with pytest.raises(ConfigurationError, match="shared = True needs a location"):
        Checkpoint(shared=True)
    given = replace(SPEC, fingerprint="f" * 64, checkpoint=CheckpointSpec(IN_WORK_DIR, 1, 1, -1, shared=True))
    with pytest.raises(ConfigurationError, match="shared = True needs a location"):
        check_spec(given)


def test_what_may_be_lost_is_said_and_what_it_costs() -> None:
    own = replace(SPEC, checkpoint=CheckpointSpec(IN_WORK_DIR, 60_000, 2, -1))
    [warning] = checkpoint_warnings(own, 1)
    assert "checkpoints/ in the directory where each node works" in warning
    assert "is run again from step 1, for which Kafka must still have all input" in warning
    [warning] = checkpoint_warnings(own, 9, {"b", "a"})
    assert "its nodes are on a, b" in warning
    assert "steps before 9 were dropped" in warning
    [warning] = checkpoint_warnings(replace(SPEC, checkpoint=CheckpointSpec("", 0, 0, -1)), 1)
    assert "is saved nowhere (checkpoint=None)" in warning


def test_nothing_is_said_of_shared_storage_or_where_there_is_no_state() -> None:
    shared = replace(SPEC, checkpoint=CheckpointSpec("s3://b/p?region=x", 60_000, 2, -1, shared=True))
    assert checkpoint_warnings(shared, 1) == []
    assert checkpoint_warnings(replace(SPEC, stateful=False), 1) == []
    assert saved_where(shared) == "s3://b/p"


def test_the_status_says_where_and_warns() -> None:
    projection = PipelineProjection("p")
    spec = replace(SPEC, nodes=2, checkpoint=CheckpointSpec(IN_WORK_DIR, 60_000, 2, -1))
    joins = [NodeJoin("p", node, f"u{node}", f"host-{node}", 1) for node in (0, 1)]
    projection.see_control([Logged(offset, 5, record) for offset, record in enumerate([spec, *joins])])
    status = status_of(projection, 10)
    assert status.checkpoint_location.startswith("checkpoints/ in the directory")
    [warning] = status.warnings
    assert "its nodes are on host-0, host-1" in warning
