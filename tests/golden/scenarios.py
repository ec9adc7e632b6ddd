"""What golden histories tell: each is played once in the simulator, from which the bytes are then taken for
ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from kcontrol.core.coordinator.table import State
from kcontrol.core.model import DesiredMode, FailureKind, LoggedStep, StepBoundary
from kcontrol.core.node.table import NodeStage as NodeAt
from tests.golden.files import History
from tests.simulation.directory import Directory
from tests.simulation.fleet import Fleet
from tests.simulation.layout_faults import stop
from tests.simulation.reset_faults import write_reset
from tests.simulation.schedule import Schedule
from tests.simulation.specs import simulated_spec

_MOST_EVENTS = 20_000


class Play:
    """A fleet in which nothing goes wrong but what the scenario does."""

    def __init__(
        self, nodes: int, checkpoints: int = 0, *, impatient: bool = False, stateful: bool = True
    ) -> None:
        random = Random(nodes)
        self.fleet = Fleet(simulated_spec(nodes, 0, impatient, checkpoints, stateful), random)
        self._schedule = Schedule(self.fleet, Counter())

    def until(self, holds: Callable[[Fleet], bool]) -> None:
        """Go on until something holds."""
        for _ in range(_MOST_EVENTS):
            if holds(self.fleet):
                return
            self._schedule.nothing_wrong()
        raise AssertionError(f"it did not come to that: {self.fleet.describe()}")

    def steps(self, count: int) -> None:
        """Go on until so many more steps are committed."""
        end = len(self.fleet.world.boundaries) + count
        self.until(lambda fleet: len(fleet.world.boundaries) >= end)

    def history(self) -> History:
        """What is in both logs."""
        world = self.fleet.world
        return History(
            [one for one in world.control if one is not None], [one for one in world.steps if one is not None]
        )


def one_node() -> History:
    """Five steps, and nothing else."""
    play = Play(1)
    play.steps(5)
    return play.history()


def three_nodes_with_checkpoints() -> History:
    """Checkpoints by the clock and one on request, with old steps and checkpoints dropped."""
    play = Play(3, checkpoints=1)
    play.steps(3)
    play.fleet.ask_for_checkpoint()
    play.until(lambda fleet: len(fleet.world.saved) >= 4)
    play.steps(2)
    return play.history()


def compacted() -> History:
    """The same, as the cleaner leaves it."""
    play = Play(3, checkpoints=2)
    play.until(lambda fleet: len(fleet.world.saved) >= 4)
    play.steps(1)
    world = play.fleet.world
    world.compact(len(world.control))
    world.compact_steps(len(world.steps), len(world.steps))
    return play.history()


def takeover_in_mid_step() -> History:
    """A second coordinator claims while both nodes write; the first one's attempt is not the one that
    counts."""
    play = Play(2)
    play.steps(2)
    play.until(
        lambda fleet: all(node is not None and node.state.at is NodeAt.WRITING for node in fleet.nodes)
    )
    play.fleet.assign(0)
    play.steps(3)
    return play.history()


def halt_and_resume() -> History:
    """A wrong digest halts it; somebody resumes it."""
    play = Play(2)
    play.steps(2)
    play.until(lambda fleet: any(node is not None and node.engine.queue for node in fleet.nodes))
    busy = next(node for node in play.fleet.nodes if node is not None and node.engine.queue)
    busy.engine.fail(FailureKind.DIGEST)
    play.until(lambda fleet: fleet.coordinators[-1].state.at is State.HALTED)
    play.fleet.resume()
    play.steps(2)
    return play.history()


def wiped_node() -> History:
    """A node that lost its disk opens a checkpoint and replays."""
    play = Play(2, checkpoints=1)
    play.until(lambda fleet: len(fleet.world.saved) >= 2)
    play.steps(1)
    play.fleet.kill_node(1)
    play.fleet.directories[1] = Directory()
    play.fleet.start_node(1)
    play.steps(2)
    return play.history()


def grown() -> History:
    """One node, then three, without state."""
    play = Play(1, checkpoints=1, stateful=False)
    play.steps(3)
    play.fleet.resize(simulated_spec(3, 0, False, 1, stateful=False), stopped=True)
    play.steps(3)
    return play.history()


def paused_input() -> History:
    """One of two inputs is paused: steps name it, and hold nothing of it."""
    play = Play(2)
    play.steps(2)
    play.fleet.pause_input(1, True)
    play.until(lambda fleet: fleet.world.boundaries[-1].paused_inputs == ("side",))
    play.steps(1)
    return play.history()


def skipped() -> History:
    """A user has a step begin beyond offsets of an input that is paused."""
    play = Play(2)
    play.steps(2)
    play.fleet.pause_input(0, True)
    play.until(lambda fleet: fleet.world.boundaries[-1].paused_inputs == ("in",))
    play.until(lambda fleet: fleet.world.input_ends[0][0] >= fleet.world.committed(0, 0) + 2)
    play.fleet.skip(0, 0, play.fleet.world.committed(0, 0) + 2)
    play.until(lambda fleet: fleet.world.boundaries[-1].skipped_ranges != ())
    return play.history()


def added_partition_and_then_more_nodes() -> History:
    """One node takes up a partition that was added; then three nodes go on, of which the first reads it."""
    play = Play(1, stateful=False)
    play.steps(2)
    play.fleet.add_partition(0)
    play.until(lambda fleet: fleet.world.committed(0, 3) > 0)
    play.fleet.resize(simulated_spec(3, 0, False, 0, stateful=False), stopped=True)
    before = play.fleet.world.committed(0, 3)
    play.until(lambda fleet: fleet.world.committed(0, 3) > before)
    return play.history()


def taken_back() -> History:
    """The last step is void: a reset to the checkpoint before it, which drops that of the void one; and the steps after it."""
    play = Play(2, checkpoints=1)
    play.until(lambda fleet: len(fleet.world.saved) >= 2)
    play.steps(2)
    _go_back(play.fleet)
    play.steps(3)
    return play.history()


def taken_back_twice() -> History:
    """A reset, and then one over it, to a step before that which the first has gone back to: the first is void like the steps
    around it; and the steps after both. There is no checkpoint."""
    play = Play(2)
    play.steps(5)
    _go_back(play.fleet, to_step=3)
    play.steps(2)
    _go_back(play.fleet, to_step=2)
    play.steps(3)
    return play.history()


def _go_back(fleet: Fleet, to_step: int = 0) -> None:
    """0: to the oldest checkpoint that is there once all has stopped."""
    stop(fleet)
    for node in range(2):
        fleet.kill_node(node)
    back = to_step or fleet.world.checkpoints[0].step
    assert write_reset(fleet.world, Random(2), Counter(), to_step=back)
    for node in range(2):
        fleet.start_node(node)
    fleet.want(DesiredMode.RUNNING)


def broken_by_a_gap() -> History:
    """A step is missing in the middle."""
    whole = one_node()
    gone = next(one for one in whole.steps if isinstance(one.record, StepBoundary) and one.record.step == 3)
    return History(whole.control, [one for one in whole.steps if one is not gone])


def broken_by_two_attempts() -> History:
    """Two committed attempts of one step."""
    whole = one_node()
    last = whole.steps[-1]
    assert isinstance(last.record, StepBoundary)
    other = replace(last.record, token=replace(last.record.token, attempt=2), now_ms=last.record.now_ms + 1)
    return History(whole.control, [*whole.steps, LoggedStep(last.offset + 1, other)])


def broken_by_input_read_twice() -> History:
    """A step that begins before the one before it has ended."""
    whole = one_node()
    last = whole.steps[-1]
    assert isinstance(last.record, StepBoundary)
    again = replace(last.record, step=last.record.step + 1, now_ms=last.record.now_ms + 1)
    return History(whole.control, [*whole.steps, LoggedStep(last.offset + 1, again)])


def broken_by_a_silent_skip() -> History:
    """A step that begins beyond where the one before it has ended, and does not say that anybody wanted
    that."""
    whole = skipped()
    last = whole.steps[-1]
    assert isinstance(last.record, StepBoundary)
    silent = LoggedStep(last.offset, replace(last.record, skipped_ranges=()))
    return History(whole.control, [*whole.steps[:-1], silent])


SCENARIOS: dict[str, Callable[[], History]] = {
    "one-node": one_node,
    "one-node-first-release": one_node,
    "three-nodes-with-checkpoints": three_nodes_with_checkpoints,
    "three-nodes-first-release": three_nodes_with_checkpoints,
    "compacted": compacted,
    "takeover-in-mid-step": takeover_in_mid_step,
    "halt-and-resume": halt_and_resume,
    "wiped-node": wiped_node,
    "grown": grown,
    "paused-input": paused_input,
    "skipped": skipped,
    "added-partition-and-then-more-nodes": added_partition_and_then_more_nodes,
    "taken-back": taken_back,
    "taken-back-twice": taken_back_twice,
    "broken-by-a-gap": broken_by_a_gap,
    "broken-by-two-attempts": broken_by_two_attempts,
    "broken-by-input-read-twice": broken_by_input_read_twice,
    "broken-by-a-silent-skip": broken_by_a_silent_skip,
}
"""By name. What ends in `first-release` is written with the oldest version of every record's schema."""
