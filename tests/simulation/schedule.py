"""One schedule: a seeded choice of what happens next, over and over, and then a world without
faults that must make progress.

A schedule begins at a random moment of a run without faults (moments.py), so that little time
is spent on getting there. Each has a random choice of the faults (swarm testing, Groce et al. 2012): a few
that come often find what all of them together would hide. Everything random comes from one generator, so a
seed is a schedule for ever.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from kcontrol.core.coordinator.table import State
from kcontrol.core.model import DesiredMode
from kcontrol.core.node.table import UNWRITTEN
from kcontrol.errors import DamagedRecordError
from tests.simulation.broker_faults import BROKER_FAULTS
from tests.simulation.coordinator_actor import CoordinatorActor
from tests.simulation.exchange_faults import EXCHANGE_FAULTS
from tests.simulation.faults import FAULTS, Fault, request_denied
from tests.simulation.fleet import Fleet, Process
from tests.simulation.invariants import PROGRESS, STAGES_END, Violation, require
from tests.simulation.live_layout import asked, to_follow
from tests.simulation.moments import Kind, Moment, Moments
from tests.simulation.node_actor import NodeActor
from tests.simulation.specs import CHECKPOINTS, simulated_spec
from tests.simulation.states import MEANWHILE
from tests.simulation.told_faults import TOLD_FAULTS, told_of_any_step
from tests.simulation.world import twin_of

_NODES = (1, 2, 3)
_CLOCKS_MS = (0, 500)
_CHECKPOINTS = (0, 0, 1, 2)
_EVENTS = (20, 20, 20, 20, 20, 40, 40, 40, 80, 150)
"""Of the part with faults: one of these."""
_EVENTS_WITH_REPLICAS = (20, 40, 80, 150, 150, 250, 250, 400)
"""What an old leader does not know has to be committed first."""
_MOMENTS = 240
"""Events of the run without faults that schedules begin in: from the first record to the third step and
beyond."""
_MOMENTS_WITH_CHECKPOINTS = 600
"""To the second checkpoint and beyond."""
_PROGRESS_ROUNDS = 200
_ROUND_EVENTS = 3_000
_ROUND_MS = 200
_DENIALS_EVERY = 2
_REPLICAS_EVERY = 2
_EPOCHS_EVERY = 4
_STAGES_EVERY = 8
_STAGES = (1, 2, 1, 3)
_LATE_HALTS = 4
"""A fault from before may still halt the pipeline, and others once it is resumed; then there are no more."""


class Schedule:
    """A fleet, and a generator that decides what happens to it."""

    def __init__(
        self,
        fleet: Fleet,
        counts: Counter[str],
        denials: bool = False,
        likely: tuple[Fault, ...] = (),
        replicas: bool = False,
        epochs: bool = False,
    ) -> None:
        """likely: faults that are chosen in any case."""
        self.fleet = fleet
        self.world = fleet.world
        self.begun = fleet.world.events
        self.random = random = fleet.random
        self.counts = counts
        self.faults = [fault for fault in FAULTS if random.random() < 0.35] or list(FAULTS)
        if denials:
            self.faults.append(request_denied)
        if replicas:
            fleet.world.replicated = True
            self.faults += [fault for fault in BROKER_FAULTS if random.random() < 0.5] or BROKER_FAULTS
        if fleet.stages > 1:
            self.faults += [fault for fault in EXCHANGE_FAULTS if random.random() < 0.5] or EXCHANGE_FAULTS
        if epochs:
            self.faults += [fault for fault in TOLD_FAULTS if random.random() < 0.5]
        self.faults += likely
        fleet.world.tells_epochs = epochs
        self.fault_rate = 0.3 * random.random()
        self.burst = 1 + int(random.random() * 6)
        self.in_turns = random.random() < 0.5
        self.healing = random.random() ** 3 if replicas else 1.0
        """How likely brokers hear of each other whenever time passes."""

    def run(self, to_progress: bool) -> None:
        """A part with faults, then, if wanted, one without until there is progress. Raises Violation."""
        draw, fleet, world = self.random.random, self.fleet, self.world
        choices = _EVENTS_WITH_REPLICAS if world.replicated else _EVENTS
        events = choices[int(draw() * len(choices))]
        end = world.events + events
        for _ in range(events * 3):
            if draw() < self.fault_rate:
                fault = self.faults[int(draw() * len(self.faults))]
                if fault(fleet, self.counts):
                    self.counts[fault.__name__.replace("_", " ")] += 1
            else:
                self.nothing_wrong()
            if world.events >= end:
                break
        if to_progress:
            self._settle()

    def twin(self) -> Schedule:
        """Another one, in a world of its own, that goes on as this one would."""
        random = Random(0)
        random.setstate(self.random.getstate())
        twin = twin_of(self)
        twin.random, twin.fleet = random, self.fleet.clone(random)
        twin.world = twin.fleet.world
        return twin

    def until_decided(self) -> None:
        """With nothing wrong, until the cores have decided something: to the next moment that differs."""
        before = self.world.events
        while self.world.events == before:
            self.nothing_wrong()

    def decided(self) -> int:
        """How many events the cores have decided."""
        return self.world.events - self.begun

    def nothing_wrong(self) -> None:
        """Time passes, or input arrives, or one process does one thing, or several."""
        draw, fleet = self.random.random, self.fleet
        choice = draw()
        if choice < 0.03:
            fleet.input_arrives()
        elif choice < 0.06:
            self.world.now_ms += int(draw() * 300)
            self._brokers_hear()
            self._layout_goes_on()
            for actor in fleet.alive():
                actor.tick()
        else:
            actors = fleet.alive()
            actor = actors[int(draw() * len(actors))]
            for _ in range(1 + int(draw() * self.burst)):
                if not self._act(actor, int(draw() * 5)):
                    return

    def _layout_goes_on(self) -> None:
        """Who is asked to be a node makes ready, sooner or later; who has read of another layout goes on by it."""
        if asked(self.world) is not None and self.random.random() < 0.7:
            self.fleet.make_ready()
        elif to_follow(self.world) is not None and self.random.random() < 0.5:
            self.fleet.follow_layout()

    def _brokers_hear(self) -> None:
        """In time they hear of each other."""
        world, draw = self.world, self.random.random
        for replicas, end in (
            (world.control_replicas, len(world.control)),
            (world.steps_replicas, len(world.steps)),
        ):
            if not replicas.is_calm and draw() < self.healing:
                replicas.followers_fetch(end)
                for broker in replicas.deposed():
                    if draw() < 0.5:
                        replicas.hears(broker)

    def _act(self, actor: Process, first: int) -> bool:
        """The first possible of its actions, counted from a given one."""
        if isinstance(actor, NodeActor) and actor.exited:
            self.counts["node replaced" if actor.replaced else "node shut down"] += 1
            self.fleet.bury(actor)
            return False
        if isinstance(actor, CoordinatorActor) and actor.doomed:
            self.counts[f"died with {type(actor.request).__name__} on its way"] += 1
            self.fleet.kill_coordinator(actor)
            return False
        if isinstance(actor, CoordinatorActor) and actor.overtaken:
            actor.overtaken = False
            self.counts[f"takeover with {type(actor.request).__name__} on its way"] += 1
            self.fleet.assign(0)
        for turn in range(first, first + 5):
            match turn % 5:
                case 0 | 1 if actor.read_one(turn % 2 == 0):
                    return True
                case 2 if actor.run_effect():
                    return True
                case 3 if actor.take_answer():
                    return True
                case 4 if actor.work():
                    return True
        return False

    # --- and then all is well -------------------------------------------------------------------------------

    def _settle(self) -> None:
        """No more faults: the pipeline must commit all input that there is, within a bounded number of
        rounds."""
        fleet, world = self.fleet, self.world
        fleet.world.control_replicas.settle()
        fleet.world.steps_replicas.settle()
        fleet.world.hidden_until = {}
        while fleet.orphans:
            fleet.deliver_orphan(self.counts)
        for zombie in fleet.coordinators[:-1]:
            zombie.trap = None
            zombie.work()
            while zombie.run_effect():
                pass
        fleet.coordinators = fleet.coordinators[-1:]
        fleet.coordinators[0].trap = None
        fleet.coordinators[0].doomed = fleet.coordinators[0].overtaken = False
        for actor in fleet.alive():
            actor.reader.blind_until = 0
            if actor not in fleet.zombie_nodes:
                actor.reader.deaf_until = 0
        fleet.want(DesiredMode.RUNNING)
        stays_paused = int(self.random.random() * 4)
        for index in range(len(self.world.spec.inputs)):
            fleet.pause_input(index, index == stays_paused)
        if self.random.random() < 0.3:
            fleet.input_arrives()
        halts = 0
        for _ in range(_PROGRESS_ROUNDS):
            self._round()
            state = fleet.coordinators[0].state
            if (
                state.at is State.HALTED
                and fleet.must_stay_halted()
                and "partitions, the pipeline was made with" in state.trouble.halt
            ):
                self.counts["halted for good by partitions of keyed inputs"] += 1
                self._end_zombies()
                return
            if state.at is State.DENIED:
                fleet.resume()
            if state.at is State.HALTED and halts < _LATE_HALTS:
                halts += 1
                fleet.skip_what_has_expired()
                fleet.resume()
            if fleet.all_done() and not fleet.must_stay_halted():
                self._end_zombies()
                return
        change = fleet.coordinators[0].state.changing.now
        if change is not None and not change.held:
            raise Violation(MEANWHILE, fleet.describe())
        between = any(node is not None and node.state.at in UNWRITTEN for node in fleet.nodes)
        raise Violation(STAGES_END if between and world.spec.exchanges else PROGRESS, fleet.describe())

    def _end_zombies(self) -> None:
        """They had only the boundaries to go by; now they read that they were replaced."""
        for zombie in self.fleet.zombie_nodes:
            zombie.reader.deaf_until = 0
            while _do_anything(zombie):
                pass
            require(zombie.exited, "a replaced node ends itself", zombie.state.at)

    def _round(self) -> None:
        """Every process does all it can, one after the other or in turns; then time passes."""
        fleet = self.fleet
        fleet.assign_again()
        fleet.follow_layout()
        fleet.make_ready()
        for number, node in enumerate(fleet.nodes):
            if node is None or node.exited:
                fleet.start_node(number)
        actors = fleet.alive()
        end = self.world.events + _ROUND_EVENTS
        busy = True
        while busy:
            busy = False
            for actor in actors:
                while _do_anything(actor):
                    busy = True
                    if self.world.events > end:
                        raise Violation("without faults the processes come to rest", fleet.describe())
                    if self.in_turns:
                        break
            for actor in [each for each in actors if isinstance(each, CoordinatorActor) and each.doomed]:
                fleet.kill_coordinator(actor)
                actors, busy = fleet.alive(), True
        self.world.now_ms += _ROUND_MS
        for actor in actors:
            actor.tick()


def _do_anything(actor: Process) -> bool:
    if isinstance(actor, NodeActor) and actor.exited:
        return False
    return actor.run_effect() or actor.read_one(True) or actor.take_answer() or actor.work()


def with_denials(seed: int) -> bool:
    """Whether Kafka denies requests in a schedule of a sample."""
    return seed % _DENIALS_EVERY == 0


def with_replicas(seed: int) -> bool:
    """Whether leaders move in a schedule of a sample."""
    return seed // _REPLICAS_EVERY % 2 == 1


def with_epochs(seed: int) -> bool:
    """Whether commits tell the epoch of the next transaction in a schedule of a sample."""
    return seed // _EPOCHS_EVERY % 2 == 1


def with_stages(seed: int) -> int:
    """How many stages a step has in a schedule of a sample."""
    return _STAGES[seed // _STAGES_EVERY % len(_STAGES)]


def _first(kind: Kind) -> Schedule:
    """Of a run without faults: the beginning of it."""
    nodes, clock_ms, impatient, checkpoints, stateful, patient, stages, wide = kind
    spec = simulated_spec(nodes, clock_ms, impatient, checkpoints, stateful, patient, stages, wide)
    return Schedule(Fleet(spec, Random(7), stages), Counter())


MOMENTS = Moments(_first)


def beginning(
    seed: int,
    random: Random,
    patient: bool = False,
    stages: int = 1,
    saving: bool = False,
    wide: bool = False,
    three: bool = False,
    keeps: bool = True,
) -> Moment:
    """Where a schedule begins, by what its generator says first; all else as in `run_schedule`."""
    nodes = _NODES[seed % len(_NODES)]
    clock_ms, impatient = _CLOCKS_MS[random.random() < 0.1], random.random() < 0.2
    stateful = clock_ms > 0 or impatient or random.random() < 0.4
    checkpoints = _CHECKPOINTS[int(random.random() * len(_CHECKPOINTS))]
    if saving:
        nodes, stateful, checkpoints, clock_ms = 2 + three, keeps, len(CHECKPOINTS) - 1, 0
    clock_ms = 0 if patient else clock_ms
    moments = _MOMENTS_WITH_CHECKPOINTS if checkpoints else _MOMENTS
    kind = (nodes, clock_ms, impatient, checkpoints, stateful, patient, stages, wide)
    return kind, int(random.random() * moments)


def run_schedule(
    seed: int,
    counts: Counter[str],
    to_progress: bool = True,
    denials: bool = False,
    likely: tuple[Fault, ...] = (),
    replicas: bool = False,
    patient: bool = False,
    epochs: bool = False,
    stages: int = 1,
    saving: bool = False,
    wide: bool = False,
    three: bool = False,
    keeps: bool = True,
) -> Schedule:
    """One schedule. to_progress: its second part is run too, which takes four fifths of the events. denials:
    Kafka may deny requests. likely: faults that are chosen in any case. replicas: leaders move. patient:
    steps wait for several records. epochs: commits tell the epoch of the next transaction. stages: of a step, 2
    or 3 where rows are exchanged. saving: two nodes with state that is saved often. wide: three may share their inputs.
    three: of which there are as many. keeps: with saving, whether they have state at all. Without these ten, a seed is the
    schedule that it always was. Raises Violation."""
    random = Random(seed)
    moment = beginning(seed, random, patient, stages, saving, wide, three, keeps)
    fleet = MOMENTS.at(moment).clone(random)
    schedule = Schedule(fleet, counts, denials, likely, replicas, epochs)
    try:
        with told_of_any_step():
            schedule.run(to_progress)
    except DamagedRecordError as error:
        raise Violation("nobody ends in DamagedRecordError by itself", str(error)) from error
    except (LookupError, ValueError, TypeError) as error:
        raise Violation("no event is unexpected", f"{type(error).__name__}: {error}") from error
    return schedule
