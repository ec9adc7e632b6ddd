"""It is known, or said to be unknown, whether Kafka still has what a replay would need, before retention
takes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import Checkpoint, Logged, LoggedStep, PipelineSpec, StepBoundary
from kcontrol.sessions.ports import Kept
from kcontrol.views.pipeline_facts import status_of
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.retention import ReplayInput, replay_inputs, warning_ms
from tests.unit.core.made import SPEC, boundary, checkpoint

DAY_MS = 24 * 3_600_000
ALL = Kept("T1", (0, 0), (0, 0), 7 * DAY_MS, -1)


def projected(
    kept: Kept | str | None, saved: tuple[int, ...] = (), spec: PipelineSpec = SPEC
) -> tuple[PipelineProjection, ReplayInput]:
    """Four steps: each reads one record of partition 0, from offset 5 on; the first also one of partition
    1."""
    projection = PipelineProjection("p")
    projection.see_control([Logged(0, 1, spec)])
    records: list[StepBoundary | Checkpoint] = []
    for step in (1, 2, 3, 4):
        ends = ((4 + step, 5 + step), (0, 1) if step == 1 else (1, 1))
        records.append(boundary(step, (ends[0][0], ends[1][0]), (ends[0][1], ends[1][1])))
        if step in saved:
            records.append(checkpoint(step, 1))
    projection.see_steps([LoggedStep(offset, record) for offset, record in enumerate(records)])
    if kept is not None:
        projection.kept = {"input": kept}
    [found] = replay_inputs(projection)
    return projection, found


def test_without_a_checkpoint_a_replay_needs_everything() -> None:
    _, found = projected(replace(ALL, earliest=(3, 0)))
    assert (found.after_step, found.left, found.expiring, found.warning) == (0, 0, False, "")


def test_the_oldest_kept_checkpoint_is_where_a_replay_begins_at_worst() -> None:
    _, found = projected(replace(ALL, earliest=(3, 0)), saved=(2, 3))
    assert (found.after_step, found.left) == (2, 1), (
        "offset 7 of partition 0, and what comes next of partition 1: 1"
    )


def test_what_retention_is_about_to_take_is_warned_of() -> None:
    projection, found = projected(replace(ALL, expiring=(8, 0)), saved=(2,))
    assert found.expiring
    assert "partition 0: retention.ms = 604800000 may take offset 7 within 1440 min" in found.warning
    assert found.warning in status_of(projection, 5).warnings
    assert not projected(replace(ALL, expiring=(7, 0)), saved=(2,))[1].expiring


def test_what_retention_has_taken_is_warned_of_with_what_it_means() -> None:
    _, found = projected(replace(ALL, earliest=(9, 0)), saved=(2,))
    assert found.left == -2
    assert (
        "Kafka has taken offsets 7 to 8, which a replay that begins after step 2, or the next step, needs"
        in found.warning
    )


def test_a_limit_in_bytes_is_warned_of_when_its_next_segment_is_the_one() -> None:
    kept = Kept("T1", (7, 0), None, -1, 1_000)
    assert (
        "retention.bytes = 1000 may take offset 7 with the next segment"
        in projected(kept, saved=(2,))[1].warning
    )
    assert projected(replace(kept, earliest=(6, 0)), saved=(2,))[1].warning == ""
    assert projected(replace(kept, retention_bytes=-1), saved=(2,))[1].warning == ""


def test_a_pipeline_without_state_needs_only_what_no_step_has_read() -> None:
    _, found = projected(replace(ALL, earliest=(9, 1)), spec=replace(SPEC, stateful=False))
    assert (found.after_step, found.left, found.warning) == (4, 0, "")


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (None, "Kafka has not been asked yet"),
        ("no answer within 5 s", "no answer within 5 s"),
        (replace(ALL, topic_id="T9"), "was deleted or recreated"),
    ],
)
def test_what_is_not_known_is_said_to_be_unknown(kept: Kept | str | None, why: str) -> None:
    _, found = projected(kept)
    assert (found.left, found.expiring, found.warning) == (None, None, "")
    assert why in found.unknown


def test_short_retentions_are_warned_of_a_quarter_of_their_time_before() -> None:
    assert (warning_ms(7 * DAY_MS), warning_ms(60_000)) == (DAY_MS, 15_000)
