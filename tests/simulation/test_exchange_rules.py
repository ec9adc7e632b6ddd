"""The rules of an exchange that live in the core, switched off: the simulator must then find what the rule is there for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import attempt
from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.events import FinishStep
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import (
    EventTimes,
    ExchangeSlice,
    PipelineSpec,
    StepBoundary,
    Token,
    Watermark,
    Written,
)
from kcontrol.core.node import decide as node
from kcontrol.core.node.turn import NodeTurn
from kcontrol.core.step import exchange, watermarks
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.exchange_faults import node_killed_between_stages, row_lost_in_a_fetch
from tests.simulation.exchanged import (
    AFTER_ALL,
    AS_WRITTEN,
    EXACTLY_ONCE,
    NOTHING_ABORTED,
    ONE_WATERMARK,
    OWNED,
    ExchangeTopics,
)
from tests.simulation.exchanging import Exchanging
from tests.simulation.faults import node_killed_and_its_disk_lost
from tests.simulation.invariants import STAGES_END
from tests.simulation.states import STATE


def _reports_of_any_attempt_count() -> Patches:
    """E2 without the token, on nodes: the coordinator goes by it as ever."""

    def early_report(view: PipelineView, token: Token, number: int, stage: int) -> Written | None:
        return view.early(number, token.incarnations[number], stage)

    right = exchange.early_report
    return (
        patch.object(exchange, "early_report", early_report),
        patch.object(attempt, "early_report", right),
    )


def _nobody_looks_whose_rows_are_read() -> Patches:
    """The same, with nothing that notices before it is too late."""
    return *_reports_of_any_attempt_count(), patch.object(
        ExchangeTopics, "check_begins", lambda self, token, stage: None
    )


def _dead_lives_are_not_waited_for() -> Patches:
    """E2 without the life: whoever was restarted meanwhile counts as done."""

    def ready(view: PipelineView, token: Token, stage: int) -> bool:
        return all(
            view.incarnation(number) != life
            or (
                (report := exchange.early_report(view, token, number, stage)) is not None
                and report.failure is None
            )
            for number, life in enumerate(token.incarnations)
        )

    return (patch.object(node, "ready", ready),)


def _a_node_waits_for_itself_alone() -> Patches:
    right = node.ready

    def go_on(turn: NodeTurn) -> None:
        state, work = turn.state, turn.state.work
        alone = patch.object(node, "ready", lambda view, token, stage: True)
        own = work and exchange.early_report(state.view, work.token, state.node, state.stage)
        with alone if own else patch.object(node, "ready", right):
            on(turn)

    on = node._go_on
    return (patch.object(node, "_go_on", go_on),)


def _reports_that_failed_count() -> Patches:
    def ready(view: PipelineView, token: Token, stage: int) -> bool:
        lives = range(len(token.incarnations))
        return all(exchange.early_report(view, token, number, stage) is not None for number in lives)

    return (patch.object(node, "ready", ready),)


def _nobody_counts_what_was_taken() -> Patches:
    """E5 without its counts."""
    return (patch.object(attempt, "wrong_taken", lambda slices, taken: ""),)


def _the_boundary_leaves_a_stage_out() -> Patches:
    right = attempt.boundary_of

    def boundary_of(*given: Any) -> StepBoundary:
        made = right(*given)
        return replace(made, exchanges=tuple(piece for piece in made.exchanges if piece.partition))

    return (patch.object(coordinator, "boundary_of", boundary_of),)


def _a_node_takes_what_is_for_others() -> Patches:
    """And believes that it is its own; nobody counts."""

    def runs_for(slices: Sequence[ExchangeSlice], number: int) -> tuple[ExchangeSlice, ...]:
        turned = (
            replace(piece, runs=tuple(replace(run, node=run.node ^ 1) for run in piece.runs))
            for piece in slices
        )
        return exchange.runs_for(turned, number)

    def read(self: ExchangeTopics, name: str, slices: Sequence[ExchangeSlice], number: int) -> Any:
        return [
            (row, chunk.token)
            for piece in slices
            for run in (piece.runs if piece.exchange == name else ())
            for offset in range(run.from_, run.to)
            if (chunk := self.chunks.get((name, piece.partition, offset))) is not None
            for row in chunk.rows
        ]

    return (
        patch.object(node, "runs_for", runs_for),
        patch.object(ExchangeTopics, "read", read),
        *_nobody_counts_what_was_taken(),
    )


def _a_replay_takes_what_is_for_all() -> Patches:
    """With another table, that is."""

    def take_again(self: Exchanging, work: Any, expected: StepBoundary) -> None:
        for number in range(expected.nodes):
            for each in expected.layout.exchanges:
                cut = exchange.runs_for(expected.exchanges, number)
                rows = tuple(row for row, _ in self.world.exchanged.read(each.exchange, cut, number))
                self.taken[each.exchange] = (*self.taken.get(each.exchange, ()), *rows)

    return (patch.object(Exchanging, "take_again", take_again),)


def _a_checkpoint_deletes_all_that_was_sent() -> Patches:
    return (patch.object(ExchangeTopics, "delete_before", lambda self, kept: self.chunks.clear()),)


def _slots_are_not_added_to_the_transaction() -> Patches:
    return (patch.object(attempt, "slots", lambda spec, layout: ()),)


def _each_node_goes_by_its_own_watermark() -> Patches:
    def finish(step: int, marks: tuple[Watermark, ...] = ()) -> FinishStep:
        return FinishStep(step)

    return (patch.object(node, "FinishStep", finish),)


def _watermarks_go_back() -> Patches:
    right = watermarks.after_step

    def after_step(
        spec: PipelineSpec, before: Sequence[Watermark], seen: Sequence[EventTimes]
    ) -> tuple[Watermark, ...]:
        return right(spec, (), seen)

    return (patch.object(attempt, "after_step", after_step),)


def _a_watermark_is_that_of_the_first_node() -> Patches:
    right = watermarks.after_step

    def after_step(
        spec: PipelineSpec, before: Sequence[Watermark], seen: Sequence[EventTimes]
    ) -> tuple[Watermark, ...]:
        return right(spec, before, [one for one in seen if one.node == 0])

    return (patch.object(attempt, "after_step", after_step),)


RULES = (
    Rule(_reports_of_any_attempt_count, AFTER_ALL, stages=2),
    Rule(_nobody_looks_whose_rows_are_read, NOTHING_ABORTED, stages=2),
    Rule(_dead_lives_are_not_waited_for, AFTER_ALL, 133, likely=(node_killed_between_stages,), stages=2),
    Rule(_a_node_waits_for_itself_alone, AFTER_ALL, stages=3),
    Rule(_reports_that_failed_count, AFTER_ALL, 418, stages=2),
    Rule(_nobody_counts_what_was_taken, EXACTLY_ONCE, likely=(row_lost_in_a_fetch,), stages=2),
    Rule(_the_boundary_leaves_a_stage_out, AS_WRITTEN, stages=3),
    Rule(_a_node_takes_what_is_for_others, OWNED, stages=2),
    Rule(_a_replay_takes_what_is_for_all, STATE, stages=2),
    Rule(
        _a_checkpoint_deletes_all_that_was_sent,
        AS_WRITTEN,
        37,
        likely=(node_killed_and_its_disk_lost,),
        stages=2,
    ),
    Rule(_slots_are_not_added_to_the_transaction, STAGES_END, stages=2),
    Rule(_each_node_goes_by_its_own_watermark, ONE_WATERMARK, stages=2),
    Rule(_watermarks_go_back, ONE_WATERMARK, stages=3),
    Rule(_a_watermark_is_that_of_the_first_node, ONE_WATERMARK, stages=2),
)
PROMISED = (AFTER_ALL, NOTHING_ABORTED, EXACTLY_ONCE, AS_WRITTEN, OWNED, STATE, STAGES_END, ONE_WATERMARK)


def test_every_promised_invariant_is_seen_to_be_checked() -> None:
    assert set(PROMISED) <= {rule.invariant for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)
