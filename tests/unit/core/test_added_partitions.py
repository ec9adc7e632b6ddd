"""Partitions added to inputs of a pipeline with state on several nodes: the way out of the halt, and who needs none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.control_view import evolve as see
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.log.steps_view import evolve as fold
from kcontrol.core.model import Logged, LoggedStep, PipelinePhase, PipelineSpec
from kcontrol.core.step.added_partitions import growth_refused
from tests.unit.core.staged import STAGED
from tests.unit.core.test_inputs_of_a_coordinator import (
    FIRST_OF_TWO,
    SIDE,
    STATEFUL_ON_TWO,
    in_place,
    pause,
    received,
)

WITH_ANOTHER = replace(STATEFUL_ON_TWO, inputs=(*STATEFUL_ON_TWO.inputs, replace(SIDE, node=0)))
_LATER = "with kcontrol.exchange() in place of partitioned_by= it takes up partitions that are added"


def _grown(spec: PipelineSpec) -> str:
    """What is said of its first input, which was made with two partitions and has four now."""
    grown = replace(spec.inputs[0], start_offsets=(0,) * 4, node_of=(0, 1, 0, 1))
    steps = fold(StepsView("p"), LoggedStep(0, FIRST_OF_TWO))
    spec = replace(spec, inputs=(grown, *spec.inputs[1:]))
    return growth_refused(spec, steps, see(PipelineView.empty("p"), Logged(0, 0, spec)))


def test_what_halts_for_good_names_the_way_out_that_is_the_last() -> None:
    text = _grown(STATEFUL_ON_TWO)
    assert text.endswith(f"Submit the pipeline under a new name, so that it reads its inputs anew: {_LATER}")
    assert _grown(WITH_ANOTHER).endswith(
        f"{_LATER}. Until then kcontrol pause-input p in and kcontrol resume p have it go on with its other inputs"
    )


def test_until_then_its_other_inputs_are_read_as_the_halt_says() -> None:
    driver = in_place(WITH_ANOTHER)
    received(driver, "in", (0, 6), (0, 1), (0, 4))
    assert driver.status.phase is PipelinePhase.HALTED
    assert "kcontrol pause-input p in and kcontrol resume p" in driver.status.reason
    pause(driver, name="in")
    driver.resume()
    for number in range(2):
        driver.say(number)
    assert driver.state.at is State.READY
    received(driver, "side", (0, 3), topic_id="T3")
    assert driver.state.at is State.ADDING


@pytest.mark.parametrize("by", ["", "k"])
def test_what_is_brought_to_its_keys_is_taken_up_and_what_stays_where_it_is_read_is_not(by: str) -> None:
    exchanged = replace(STAGED, inputs=(replace(STAGED.inputs[0], partitioned_by=by),))
    assert exchanged.exchanges
    assert (_grown(exchanged) == "") == (by == "")
