"""A coordinator whose nodes are in place, or save a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcontrol.core.model import CheckpointPart, CheckpointSpec, Command, CommandKind, PipelineSpec
from tests.unit.core.drive import CoordinatorDriver, published
from tests.unit.core.made import SPEC, boundary, checkpoint

EVERY_MS = 3_000
ONE = replace(SPEC, checkpoint=CheckpointSpec("file:///c", EVERY_MS, 2, 1))
TWO = replace(ONE, nodes=2, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),))
STEPS_ONLY = (("kcontrol.p.steps", 0),)


def resting(spec: PipelineSpec = TWO, steps: int = 3, saved: tuple[int, ...] = ()) -> CoordinatorDriver:
    """A coordinator that has taken over a pipeline with all nodes at the last of so many steps."""
    driver = CoordinatorDriver(spec)
    for step in range(1, steps + 1):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step), nodes=spec.nodes))
        if step in saved:
            driver.see_step(checkpoint(step, spec.nodes))
    driver.take_over()
    for number in range(spec.nodes):
        driver.join(number)
        driver.say(number)
    return driver


def told(effects: list[Any]) -> list[tuple[int, int]]:
    """(node, step) of the commands to checkpoint."""
    return [(one.node, one.step) for one in published(Command, effects) if one.kind is CommandKind.CHECKPOINT]


def part(driver: CoordinatorDriver, number: int, **changes: Any) -> list[Any]:
    """A node has saved its part of the checkpoint that it was last told of, but for the changes."""
    command = driver.state.nodes.commands[number]
    incarnation = driver.incarnations[number]
    said = CheckpointPart(
        "p", number, incarnation, command.claim_epoch, command.serial, command.step, f"m{number}", 2, 30, ""
    )
    return driver.see(replace(said, **changes))


def saving(spec: PipelineSpec = TWO, saved: tuple[int, ...] = ()) -> CoordinatorDriver:
    """A checkpoint has been begun and all nodes have pinned it."""
    driver = resting(spec, saved=saved)
    assert told(driver.tick(EVERY_MS)) == [(number, 3) for number in range(spec.nodes)]
    for number in range(spec.nodes):
        driver.say(number)
    return driver
