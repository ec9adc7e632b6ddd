"""The rules about single inputs, switched off one by one: see test_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import attempt, between_steps, definition, status
from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import InputSpec, PipelineSpec, ReceivedPartition, SkipRequest
from kcontrol.core.node import announce as node_voice
from kcontrol.core.node.table import NodeStage as NodeState
from kcontrol.core.step import division, skips
from kcontrol.core.step import offsets as inputs
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.faults import (
    engine_failed,
    input_expires,
    node_killed,
    partition_added,
    user_resumes,
    user_skips,
)


def _paused_inputs_are_read() -> Patches:
    return (patch.object(division, "is_paused", lambda view, item: False),)


def _a_failed_plan_is_kept_though_an_input_was_paused() -> Patches:
    def take_note(state: CoordinatorState, spec: PipelineSpec) -> None:
        state.asked = state.asked.of_inputs(state.asked.paused, inputs.requests_offset(spec, state.view))

    return (patch.object(between_steps, "take_note_of_inputs", take_note),)


def _requests_about_inputs_are_noted_in_the_middle_of_a_step() -> Patches:
    right = status.report

    def report(turn: Turn) -> None:
        spec = turn.state.view.spec()
        if spec is not None:
            asked = turn.state.asked
            turn.state.asked = asked.of_inputs(asked.paused, inputs.requests_offset(spec, turn.state.view))
        right(turn)

    return (patch.object(coordinator, "report", report),)


def _expired_input_is_passed_over_in_silence() -> Patches:
    right = division.received_ranges

    def received_ranges(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> Any:
        earliest = {
            (item.name, one.partition): one.earliest
            for item in spec.inputs
            for one in inputs.arrived(spec, item, view).values()
        }
        found = ((part, earliest.get((part.input, part.partition), 0)) for part in right(spec, steps, view))
        return tuple(
            replace(part, from_=max(part.from_, first), to=max(part.to, first)) for part, first in found
        )

    silent = patch.object(between_steps, "gone_input", lambda spec, steps, view: "")
    return patch.object(between_steps, "received_ranges", received_ranges), silent


def _with_skips(
    counts: Callable[[StepsView, InputSpec, SkipRequest, ReceivedPartition | None], bool],
) -> Patches:
    return (patch.object(skips, "_counts", counts),)


def _a_skip_counts_wherever_the_log_ends() -> Patches:
    def counts(steps: StepsView, item: InputSpec, skip: SkipRequest, seen: ReceivedPartition | None) -> bool:
        return seen is not None and inputs.next_offset(steps, item, skip.partition) < skip.to <= seen.to

    return _with_skips(counts)


def _a_skip_may_go_beyond_the_end() -> Patches:
    def counts(steps: StepsView, item: InputSpec, skip: SkipRequest, seen: ReceivedPartition | None) -> bool:
        return inputs.next_offset(steps, item, skip.partition) == skip.from_ < skip.to

    return _with_skips(counts)


def _a_skip_may_go_back() -> Patches:
    def counts(steps: StepsView, item: InputSpec, skip: SkipRequest, seen: ReceivedPartition | None) -> bool:
        return (
            inputs.next_offset(steps, item, skip.partition) == skip.from_
            and seen is not None
            and skip.to <= seen.to
        )

    return _with_skips(counts)


def _skips_are_not_recorded() -> Patches:
    right = attempt.boundary_of

    def boundary_of(*about: Any) -> Any:
        return replace(right(*about), skipped_ranges=())

    return (patch.object(coordinator, "boundary_of", boundary_of),)


def _a_failed_node_says_nothing_of_its_input_and_expiry_is_judged_all_the_same() -> Patches:
    right = between_steps.take_note_of_inputs

    def take_note(state: CoordinatorState, spec: PipelineSpec) -> None:
        right(state, spec)
        state.trouble = state.trouble.halted(
            state.trouble.halt or division.gone_input(spec, state.steps, state.view)
        )

    quiet = tuple(state for state in node_voice._SAYS_INPUT if state is not NodeState.FAILED)
    return patch.object(between_steps, "take_note_of_inputs", take_note), patch.object(
        node_voice, "_SAYS_INPUT", quiet
    )


def _added_partitions_are_read_from_where_they_are_found() -> Patches:
    right = division.received_ranges

    def received_ranges(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> Any:
        old = {
            (item.name, number) for item in spec.inputs for number in range(len(item.start_offsets))
        } | set(steps.next_from)
        found = right(spec, steps, view)
        return tuple(
            part if (part.input, part.partition) in old else replace(part, from_=part.to) for part in found
        )

    return (patch.object(between_steps, "received_ranges", received_ranges),)


def _added_partitions_are_forgotten_with_the_node_that_saw_them() -> Patches:
    return (patch.object(inputs, "named_partitions", lambda steps, item: 0),)


def _keyed_partitions_are_taken_up_on_several_nodes() -> Patches:
    return (patch.object(definition, "growth_refused", lambda spec, steps, view: ""),)


_ONCE = "every input record is in exactly one committed step or in a recorded skip"
_PAUSED = "nothing of a paused input is in a step after the boundary at which it took effect"
_SKIPPED = "what is skipped is what a user asked for: forward, and no further than there are offsets"
_PROGRESS = "without faults the pipeline makes progress"
RULES = (
    Rule(_paused_inputs_are_read, _PAUSED),
    Rule(_a_failed_plan_is_kept_though_an_input_was_paused, _PAUSED, 48),
    Rule(_requests_about_inputs_are_noted_in_the_middle_of_a_step, _PAUSED),
    Rule(_expired_input_is_passed_over_in_silence, _ONCE, 21),
    Rule(_a_skip_counts_wherever_the_log_ends, _ONCE, 1_530),
    Rule(_a_skip_may_go_beyond_the_end, _SKIPPED, 58),
    Rule(_a_skip_may_go_back, _SKIPPED, 43),
    Rule(_skips_are_not_recorded, _ONCE, 114),
    Rule(
        _a_failed_node_says_nothing_of_its_input_and_expiry_is_judged_all_the_same,
        _PROGRESS,
        4680,
        (input_expires, engine_failed, user_skips, user_resumes),
    ),
    Rule(_added_partitions_are_read_from_where_they_are_found, _ONCE, 460),
    Rule(
        _added_partitions_are_forgotten_with_the_node_that_saw_them,
        "a division names every partition that one before it named",
        1_700,
        (partition_added, partition_added, node_killed, node_killed),
    ),
    Rule(
        _keyed_partitions_are_taken_up_on_several_nodes,
        "partitions of keyed inputs are not taken up on several nodes",
        40,
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)
