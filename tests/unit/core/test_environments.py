"""What steps were made with: recorded of every node's own life, and compared with what runs them again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.events import CommitStep
from kcontrol.core.log import control_view
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import Environment, Logged, NodeJoin, NodePhase
from kcontrol.core.step.environments import environment_of, made_in, made_otherwise
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.made import boundary

HERE = Environment("x86_64", "0.1.0", "3.11.7", "4.1.1", "17.0.9 Adoptium", "19.0.0", "2.3.0", "2.2.0", "")
ARM = replace(HERE, machine="aarch64", pyarrow="20.0.0")


def view(*environments: Environment | None) -> PipelineView:
    """Of one node each, whose first incarnations, at offsets 0, 1..., had other environments."""
    found = PipelineView.empty("p")
    for offset, environment in enumerate((*([ARM] * len(environments)), *environments)):
        node = offset % len(environments)
        join = NodeJoin("p", node, f"u{offset}", "host", 2, "", environment)
        found = control_view.evolve(found, Logged(offset, 1, join))
    return found


@pytest.mark.parametrize(
    ("environments", "incarnations", "recorded"),
    [
        ((HERE,), (1,), (HERE,)),
        ((HERE,), (0,), (ARM,)),
        ((HERE, HERE, HERE), (3, 4, 5), (HERE,)),
        ((HERE, ARM), (2, 3), (HERE, ARM)),
        ((HERE, None), (2, 3), ()),
        ((HERE, HERE), (2, 9), ()),
    ],
)
def test_a_boundary_says_it_once_if_all_nodes_are_alike_and_nothing_if_one_is_not_known(
    environments: tuple[Environment | None, ...],
    incarnations: tuple[int, ...],
    recorded: tuple[Environment, ...],
) -> None:
    assert made_in(view(*environments), incarnations) == recorded


def test_each_node_finds_its_own() -> None:
    assert [environment_of(replace(boundary(1), environments=(HERE,)), node) for node in range(2)] == [
        HERE,
        HERE,
    ]
    assert [environment_of(replace(boundary(1), environments=(HERE, ARM)), node) for node in range(2)] == [
        HERE,
        ARM,
    ]
    assert environment_of(boundary(1), 0) is None


def test_what_differs_is_said_and_nothing_else() -> None:
    made = replace(boundary(7), environments=(HERE,))
    assert made_otherwise(made, 0, ARM) == (
        "step 7 was made with machine x86_64, pyarrow 19.0.0; here is machine aarch64, pyarrow 20.0.0"
    )
    assert made_otherwise(made, 0, replace(HERE, protobuf="6.0")) == (
        "step 7 was made with protobuf not installed; here is protobuf 6.0"
    )
    assert made_otherwise(made, 0, HERE) == ""
    assert made_otherwise(made, 0, None) == ""
    assert made_otherwise(boundary(7), 0, HERE) == "", "an older kcontrol has not said"


def test_a_step_is_logged_with_what_its_node_has_joined_with() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join(environment=HERE)
    driver.say(phase=NodePhase.CLOSED)
    driver.say()
    work = driver.attempt(7, 2)
    assert only(CommitStep, driver.write(work)).boundary.environments == (HERE,)
