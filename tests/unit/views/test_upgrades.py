"""What an upgrade does next, and where it goes on that was interrupted."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field, replace

import pytest

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.control_view import evolve as see
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.log.steps_view import evolve as fold
from kcontrol.core.model import (
    Claim,
    HoldPhase,
    HoldStatus,
    LayoutPhase,
    LayoutRequest,
    Logged,
    LoggedStep,
    PipelinePhase,
    Status,
    UpgradeWay,
)
from kcontrol.core.model import LayoutStatus as Told
from kcontrol.views.pipeline_projection import Lag, PartitionLag
from kcontrol.views.upgrades import (
    SizeNow,
    UpgradePart,
    UpgradeTurn,
    fate_of,
    first_turn,
    nodes_left,
    size_now,
    steps_are_due,
    turn_of,
    turns,
)
from tests.unit.core.made import SPEC, boundary
from tests.unit.core.test_layout_change import given

ASKED = LayoutRequest("p", "l1", 1, 3, 60_000, (1,), way="replace", left=(2,))
ALL = (0, 1, 2)


@pytest.mark.parametrize(
    ("fate", "left"),
    [
        (None, (1, 2)),
        (LayoutPhase.GIVEN_UP, (1, 2)),
        (LayoutPhase.REFUSED, (1, 2)),
        (LayoutPhase.DONE, (2,)),
    ],
)
def test_it_goes_on_with_the_node_that_it_was_at_unless_that_is_done(
    fate: LayoutPhase | None, left: tuple[int, ...]
) -> None:
    assert nodes_left(ASKED, fate, UpgradeWay.REPLACE, ALL) == left


def test_nothing_is_left_of_another_way_of_a_change_that_is_no_upgrade_and_of_nodes_that_are_not_wanted() -> (
    None
):
    assert nodes_left(ASKED, None, UpgradeWay.IN_PLACE, ALL) == ()
    assert nodes_left(replace(ASKED, way=""), None, UpgradeWay.REPLACE, ALL) == ()
    assert nodes_left(ASKED, None, UpgradeWay.REPLACE, (2,)) == (2,)


def test_what_became_of_it_is_read_in_the_log_of_steps_before_the_status() -> None:
    view, steps = PipelineView.empty("p"), StepsView("p")
    assert fate_of(view, steps, ASKED) is None
    told = Told("l1", LayoutPhase.GIVEN_UP, 3, 0, 0, 0, 0, 0, "not ready")
    status = Status("p", 1, PipelinePhase.RUNNING, 1, "", (), 0, "", (), layout=told)
    view = see(view, Logged(1, 0, status))
    assert fate_of(view, steps, ASKED) is LayoutPhase.GIVEN_UP
    for offset, record in enumerate((boundary(1, nodes=2), replace(given(), request_id="l1", live=True))):
        steps = fold(steps, LoggedStep(offset, record))
    assert fate_of(view, steps, ASKED) is LayoutPhase.DONE
    assert fate_of(PipelineView.empty("p"), steps, replace(ASKED, request_id="l2")) is LayoutPhase.GIVEN_UP


def _words(way: UpgradeWay, nodes: int, *todo: int) -> str:
    made = turns(way, todo or tuple(range(nodes)), nodes, nodes)
    return ", ".join(f"{turn.part.name} {turn.node}" for turn in made)


def test_out_in_adds_and_removes_until_none_is_left_and_in_out_has_one_less_meanwhile() -> None:
    assert _words(UpgradeWay.OUT_IN, 2) == "ADD 2, REMOVE 0, ADD 2, REMOVE 1"
    assert _words(UpgradeWay.OUT_IN, 1) == "ADD 1, REMOVE 0"
    # The number of the one that is removed goes to a process in the place of the last one, which so is a new one, too.
    assert _words(UpgradeWay.IN_OUT, 2) == "REMOVE 0, ADD 1"
    assert _words(UpgradeWay.IN_OUT, 3) == "REMOVE 0, ADD 2, REMOVE 1, ADD 2"
    assert _words(UpgradeWay.IN_OUT, 3, 2) == "REMOVE 2, ADD 2"
    assert _words(UpgradeWay.REPLACE, 2) == "REPLACE 0, REPLACE 1"


@pytest.mark.parametrize("way", [UpgradeWay.OUT_IN, UpgradeWay.IN_OUT])
def test_an_upgrade_that_has_a_node_too_many_or_one_missing_ends_with_as_many_as_before(
    way: UpgradeWay,
) -> None:
    """Nothing is left to be upgraded: the old process of a node that was to be removed has died, and its number was taken; or
    nobody came for the one that was to be added."""
    asked = LayoutRequest("p", "l1", 1, 0, 0, way=way.value, whole=3)
    turn = first_turn(way, (), asked, LayoutPhase.GIVEN_UP, 4)
    assert (turn.part, turn.node, turn.comes, turn.nodes_after) == (UpgradePart.REMOVE, 3, (), 3)
    turn = first_turn(way, (), asked, LayoutPhase.GIVEN_UP, 2)
    assert (turn.part, turn.node, turn.comes, turn.nodes_after) == (UpgradePart.ADD, 2, (2,), 3)


def test_a_file_is_held_against_how_many_nodes_there_are_once_the_upgrade_is_over() -> None:
    """Between two changes of an upgrade there is a node too many, or one too few: a file that says so would be wrong."""
    view, steps = PipelineView.empty("p"), fold(StepsView("p"), LoggedStep(0, boundary(1, nodes=2)))
    assert size_now(view, steps) is None
    steps = fold(steps, LoggedStep(1, replace(given(), nodes=3, live=True)))
    assert size_now(view, steps) == SizeNow(3, 3)
    assert SizeNow(3, 3).advice("p", 2).endswith("and its file says 2: give the file 3")

    view = see(view, Logged(0, 0, replace(ASKED, way="out-in", whole=2)))
    size = size_now(view, steps)
    assert size == SizeNow(3, 2)
    assert size.advice("p", 2) == ""
    assert "2 nodes since" in size.advice("p", 4)
    assert "3 while it is upgraded" in size.advice("p", 4)
    assert size.advice("p", 4).endswith("give the file 2")


@dataclass
class _Log:
    """What a pipeline's logs have of an upgrade, and which numbers have new processes."""

    nodes: int
    newest: LayoutRequest | None = None
    fate: LayoutPhase | None = LayoutPhase.DONE
    new: set[int] = field(default_factory=set)
    most: int = 0
    least: int = 99

    def ask(self, turn: UpgradeTurn, way: UpgradeWay) -> None:
        replaced = turn.comes if turn.part is UpgradePart.REPLACE or turn.renumbers else ()
        self.newest = LayoutRequest(
            *("p", "l", 1, turn.nodes_after, 0, replaced), way=way.value, left=turn.left, whole=turn.whole
        )
        self.fate = None

    def make(self) -> None:
        """The coordinator does what was asked for."""
        assert self.newest is not None
        turn = turn_of(self.newest, self.nodes)
        self.nodes, self.fate = turn.nodes_after, LayoutPhase.DONE
        self.new -= {self.nodes}
        self.new |= {*turn.comes}
        self.most, self.least = max(self.most, self.nodes), min(self.least, self.nodes)

    def give_up(self) -> None:
        """What `withdrawal` writes."""
        assert self.newest is not None
        self.newest, self.fate = replace(self.newest, nodes=0), LayoutPhase.GIVEN_UP

    def take_number(self, node: int) -> None:
        """The process of before has died, and the one that waited is the node: as `withdrawal` writes that."""
        self.give_up()
        assert self.newest is not None
        left = tuple(each for each in self.newest.replaced if each != node)
        self.newest = replace(self.newest, replaced=left)
        self.new |= {node}


def test_together_all_are_replaced_by_one_change() -> None:
    [turn] = turns(UpgradeWay.REPLACE, ALL, 3, 3, together=True)
    assert (turn.part, turn.comes, turn.left, str(turn)) == (UpgradePart.REPLACE, ALL, (), "nodes 0, 1, 2")
    under_way = replace(ASKED, replaced=ALL, left=(), whole=3)
    way = UpgradeWay.REPLACE
    for together in (False, True):
        assert first_turn(way, (), under_way, None, 3, together=together) == turn, "whatever is said now"
    assert first_turn(way, (), replace(ASKED, whole=3), None, 3, together=True) == turn_of(ASKED, 3)
    given_up = replace(under_way, nodes=0)
    assert first_turn(way, (), given_up, LayoutPhase.GIVEN_UP, 3).comes == (0,), "one after the other, then"
    assert first_turn(way, (), given_up, LayoutPhase.GIVEN_UP, 3, together=True) == turn


@pytest.mark.parametrize(
    ("way", "together"),
    [*((way, False) for way in UpgradeWay), (UpgradeWay.REPLACE, True), (UpgradeWay.IN_PLACE, True)],
)
def test_wherever_the_command_is_killed_it_ends_with_new_processes_alone_and_as_many_as_before(
    way: UpgradeWay, together: bool
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - shown by pytest when a test fails
    choose = random.Random(seed)
    for _ in range(300):
        whole = choose.randint(2, 4)
        log = _Log(whole)
        for _ in range(100):
            says_so = together and choose.random() < 0.9
            turn = first_turn(way, (), log.newest, log.fate, log.nodes, together=says_so)
            if log.fate is None:
                assert log.newest is not None
                assert turn_of(log.newest, log.nodes) == turn
            else:
                log.ask(turn, way)
            # Killed before and after the change is made, given up, or never killed at all.
            if choose.random() < 0.6:
                log.make()
            elif choose.random() < 0.5:
                log.give_up()
            elif turn.part is UpgradePart.REPLACE and choose.random() < 0.5:
                log.take_number(choose.choice(turn.comes))
            assert log.newest is not None
            is_over = log.fate is LayoutPhase.DONE or not log.newest.replaced
            if log.fate is not None and is_over and log.nodes == whole and not log.newest.left:
                break
        assert (log.nodes, log.new) == (whole, set(range(whole)))
        assert log.most <= whole + (way is UpgradeWay.OUT_IN)
        assert log.least >= whole - (way is UpgradeWay.IN_OUT)


def test_what_a_coordinator_says_that_was_replaced_before_is_not_what_became_of_a_request() -> None:
    view, told = PipelineView.empty("p"), Told("l1", LayoutPhase.GIVEN_UP, 3, 0, 0, 0, -1, 0, "")
    given_up = Status("p", 0, PipelinePhase.RUNNING, 1, "", (), 0, "", (), layout=told)
    fates = []
    for offset, record in enumerate(
        (
            Claim("p", "a", "h", 1),
            ASKED,
            given_up,
            Claim("p", "b", "h", 2),
            given_up,
            replace(given_up, claim_epoch=3),
        )
    ):
        view = see(view, Logged(offset, 0, record))
        fates.append(fate_of(view, StepsView("p"), ASKED))
    given = LayoutPhase.GIVEN_UP
    # What it had said before is what its successor finds.
    assert fates == [None, None, given, given, None, given]


# --- whether steps are waited for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "waiting", "min_records", "due"),
    [
        (None, 0, 1, False),
        (None, 1, 1, True),
        (None, 5, 6, False),
        (None, 6, 6, True),
        (HoldPhase.HELD, 6, 6, False),
        (HoldPhase.RELEASED, 6, 6, True),
        (HoldPhase.GIVEN_UP, 6, 6, True),
    ],
)
def test_no_step_is_waited_for_that_a_region_holds_or_the_policy_puts_off(
    phase: HoldPhase | None, waiting: int, min_records: int, due: bool
) -> None:
    hold = None if phase is None else HoldStatus("h", phase, 3)
    said = Status("p", 1, PipelinePhase.RUNNING, 3, "", (), 0, "", (), hold=hold)
    view = see(see(PipelineView.empty("p"), Logged(0, 0, Claim("p", "c", "host", 1))), Logged(1, 0, said))
    spec = replace(SPEC, policy=replace(SPEC.policy, min_records=min_records))
    lag = Lag(spec.inputs[0].name, (PartitionLag(0, 0, 10, 10 + waiting),), None)
    assert steps_are_due(spec, view, [lag]) is due
