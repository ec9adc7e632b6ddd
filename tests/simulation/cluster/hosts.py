"""Hosts: the disk, the node processes, and the agent, whose shell this is. Any of it may stop between any two
acts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    ConfirmSnapshot,
    DrainAgent,
    FitJob,
    JobResized,
    ProposeSnapshot,
    ResizeJob,
    SetBounds,
    SetPolicy,
    SetStandbys,
)
from kcontrol.core.cluster.model import (
    AS_OF_LEVEL,
    BOUNDS_LEVEL,
    COORDINATOR,
    RESIZE_LEVEL,
    STANDBY,
    STANDBY_LEVEL,
    AgentStage,
    Mark,
    Place,
    Unit,
)
from kcontrol.core.cluster.work import NOTHING_TO_DO, RunningUnit
from tests.simulation.cluster.invariants import (
    CUT_IS_SAVED,
    DIGESTS_AGREE,
    KNOWN_LEVEL,
    MOST_IN_VAIN,
    NOT_IN_VAIN,
    NOT_STOPPED,
    SAME_VALUE,
)
from tests.simulation.cluster.pipelines_seen import PipelinesSeen
from tests.simulation.cluster.same_values import SharingMachine
from tests.simulation.cluster.standing import STOOD_BY_IS_THE_NODE
from tests.simulation.cluster.world import NEVER_MS, TICK_MS, UNFIT_MS, ClusterWorld
from tests.simulation.draws import Draws
from tests.simulation.invariants import require

LIMITS = AgentLimits(
    unfit_ms=UNFIT_MS,
    append_ms=5 * TICK_MS,
    ask_again_ms=8 * TICK_MS,
    handover_ms=40 * TICK_MS,
    backoff_ms=2 * TICK_MS,
    longest_backoff_ms=20 * TICK_MS,
    failures=2,
    steady_ms=12 * TICK_MS,
)
WAYS = ("log write", "log read", "beats write", "beats read", "control")
"""What a host may be cut off from."""


@dataclass
class Process:
    """A node of a pipeline."""

    pid: int
    unit: Unit
    generation: int
    joined: bool = False
    stood_by: bool = False
    moved_ms: int | None = None

    def running(self) -> RunningUnit:
        return RunningUnit(self.unit, self.generation, self.moved_ms)


@dataclass
class Host:
    """gone: for good. lasting_cut: what it never reaches again. broken_for: jobs that can't run here.
    keeps_none: no coordinator can run here."""

    name: str
    slots: int
    tags: tuple[str, ...]
    code_level: int
    disk: list[str] = field(default_factory=list)
    processes: dict[int, Process] = field(default_factory=dict)
    agent: HostAgent | None = None
    frozen_until_ms: int = 0
    agent_frozen_until_ms: int = 0
    cut_until_ms: dict[str, int] = field(default_factory=dict)
    broken_for: set[str] = field(default_factory=set)
    keeps_none: bool = False
    gone: bool = False
    lasting_cut: str = ""

    def reaches(self, way: str, world: ClusterWorld) -> bool:
        return not self.cut_until_ms or self.cut_until_ms.get(way, 0) <= world.now_ms


def is_given(process: Process, agent: str, unit: Unit, place: Place) -> bool:
    """Whether this is the standby whose process is to be that unit. One that another submission has placed anew, and the same
    entry given away as tags keep the node from where it was, had no process: what has its name is the next standby."""
    stands = process.unit == (unit[0], STANDBY, place.standby) and process.generation == place.stood
    return place.stood_by and place.agent == agent and stands and place.stood < place.generation


class HostAgent(PipelinesSeen):
    """One process of an agent."""

    def __init__(self, world: ClusterWorld, host: Host, incarnation: str, random: Draws) -> None:
        self.incarnations = 0
        earlier = tuple(host.disk)
        me = Identity(
            *(host.name, incarnation, host.slots, host.tags, (1, host.code_level), earlier),
            began_ms=world.now_ms,
        )
        host.disk.append(incarnation)
        world.read_ends[host.name] = world.now_ms
        machine = SharingMachine(me, LIMITS, world.now_ms, earlier[-1] if earlier else "")
        machine.values = world.values
        super().__init__(world, machine)
        self.host, self.random = host, random
        self.beats_at = len(world.beats)
        self.beaten_ms = NEVER_MS
        self.flight: tuple[ClusterEntry, int] | None = None
        self.at_rest: tuple[object, ...] = ()
        """By what it has last found nothing to end or to start."""
        self._acts: list[Callable[[], None]] = [
            *(self.read_some, self.read_some_beats, self.beat, self.speak),
            *(self.send, self.reconcile, self.look_after, self.send),
        ]

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def incarnation(self) -> str:
        return self.machine.me.incarnation

    def act(self) -> None:
        """Its tasks, in any order, each of which does as much as it likes."""
        if self.flight is None and not (self.world.log_up or self.world.beats_up) and self._can_do_nothing():
            self._wait()
            return
        host, machine = self.host, self.machine
        acts = self._acts.copy()
        if self.random.random() < 0.2:
            acts[-1] = self.cut_log
        for one in self.random.shuffled(acts):
            one()
            if machine.ended or machine.removed:
                self.look()
                if host.agent is not self:
                    return

    def _can_do_nothing(self) -> bool:
        """While all of Kafka is away: it may say nothing by itself, and what runs is what is to run."""
        return (
            not self.machine.may_write(self.world.now_ms) and self._is_at_rest() and not self.host.keeps_none
        )

    def _wait(self) -> None:
        """What is left of an act of which nothing can come: the draws, so that the schedule is the same; and whoever sees a
        confirmed snapshot may cut the log, be it away."""
        cuts = self.random.random() < 0.2
        self.random.pass_over(len(self._acts), 3, 3)
        if cuts:
            self.cut_log()

    def look(self) -> None:
        """Whether it goes on, and as whom."""
        if self.machine.ended:
            self.world.counts[f"agent ends: {self.machine.ended.split(',')[0][:40]}"] += 1
            self.host.agent = None
        elif self.machine.removed:
            self.incarnations += 1
            incarnation = f"{self.host.disk[0]}/{self.incarnations}/{self.random.randrange(10**6)}"
            self.host.disk.append(incarnation)
            self.machine.begin(incarnation, self.world.now_ms)
            self.flight = None

    # --- reading ------------------------------------------------------------------------------------------

    def read_some(self) -> None:
        self.read_log(self.random.one_of((1, 3, 100)))

    def read_some_beats(self) -> None:
        self.read_beats(self.random.one_of((2, 100, 100)))

    def read_log(self, most: int) -> None:
        world = self.world
        if not world.log_up or not self.host.reaches("log read", world):
            return
        if self.machine.next_offset < world.start:
            self.restore()
        while most and self.machine.next_offset < len(world.log) and self.host.agent is self:
            self.read_one()
            if self.machine.ended or self.machine.removed:
                self.look()
            most -= 1
        if self.machine.next_offset == len(world.log):
            self.machine.read_to_end(world.now_ms)
            world.read_ends[self.name] = world.now_ms

    def read_one(self) -> None:
        offset, level = self.machine.next_offset, self.machine.replica.level
        entry = self.world.log[offset]
        if isinstance(entry, ResizeJob | JobResized) and self.host.code_level < RESIZE_LEVEL:
            entry = None  # Its code can't read that.
        if isinstance(entry, DrainAgent | SetPolicy) and self.host.code_level < AS_OF_LEVEL:
            entry = None
        if isinstance(entry, SetStandbys) and self.host.code_level < STANDBY_LEVEL:
            entry = None
        if isinstance(entry, SetBounds | FitJob) and self.host.code_level < BOUNDS_LEVEL:
            entry = None
        self.machine.read(offset, entry)
        require(level <= self.host.code_level or bool(self.machine.ended), KNOWN_LEVEL, (offset, level))
        replica = self.machine.replica
        if replica.offset in self.world.marks and not self.machine.ended:
            same = digest(replica) == self.world.marks[replica.offset]
            require(same, SAME_VALUE, (replica.offset, self.name))

    def restore(self) -> None:
        saved = self.world.snapshots.get(self.world.truth.base)
        require(saved is not None, CUT_IS_SAVED, self.world.truth.base)
        assert saved is not None
        self.world.counts["read from a snapshot"] += 1
        self.machine.restore(saved.replica)
        self.look()

    def read_beats(self, most: int) -> None:
        world = self.world
        if not world.beats_up or not self.host.reaches("beats read", world):
            return
        beats, marks = world.beats[self.beats_at : self.beats_at + most], world.marks
        for beat in beats:
            mark = beat.mark
            require(marks.get(mark.offset, mark.digest) == mark.digest, DIGESTS_AGREE, beat)
        if beats:
            self.beats_at += len(beats)
            self.machine.hear(*beats)

    # --- speaking -----------------------------------------------------------------------------------------

    def beat(self) -> None:
        world = self.world
        if not world.beats_up or not self.host.reaches("beats write", world):
            return
        beat = self.machine.beat(world.now_ms)
        if beat is not None:
            world.beats.append(beat)
            self.beaten_ms = world.now_ms
            self.machine.beat_sent(world.now_ms)

    def speak(self) -> None:
        """Ask for what is due; it is on its way then."""
        if self.flight is None:
            entry = self.machine.entry(self.world.now_ms)
            if entry is not None and not self.may_be_said(entry):
                self.machine.withheld()
            elif entry is not None:
                self.save(entry)
                self.flight = (entry, self.world.now_ms)

    def send(self) -> None:
        """One append at a time, given up after a short while."""
        world, flight = self.world, self.flight
        if flight is None:
            return
        entry, since_ms = flight
        if world.log_up and self.host.reaches("log write", world):
            self.flight = None
            if world.append(entry):
                world.in_vain[entry] += 1
                require(world.in_vain[entry] <= MOST_IN_VAIN, NOT_IN_VAIN, (entry, world.in_vain[entry]))
            self.machine.appended()
        elif world.now_ms - since_ms > LIMITS.append_ms:
            self.flight = None
            if self.random.random() < 0.2 and not self.host.lasting_cut:
                world.late.append(entry)
            reads = world.log_up and self.host.reaches("log read", world)
            self.machine.not_appended(world.now_ms, reads)

    def may_be_said(self, entry: ClusterEntry) -> bool:
        """What it confirms, it has read."""
        if not isinstance(entry, ConfirmSnapshot):
            return True
        mark = Mark(entry.offset, entry.digest)
        if mark not in self.world.snapshots:
            return False
        self.world.were_read.add(mark)
        return True

    def save(self, entry: ClusterEntry) -> None:
        """A snapshot is there before it is proposed."""
        saved = self.machine.saved
        if isinstance(entry, ProposeSnapshot):
            assert saved is not None
            assert saved.offset == entry.offset
            self.world.snapshots[Mark(saved.offset, saved.digest)] = saved

    def cut_log(self) -> None:
        """Whoever sees a confirmed snapshot may delete what it makes needless."""
        base = self.machine.replica.base.offset
        is_member = self.machine.replica.stage(self.name) is AgentStage.MEMBER
        if base > 0 and is_member and self.world.start <= base:
            self.world.cut(base + 1)

    # --- running ------------------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """Make what runs on the host what the machine wants of it. Where it has found nothing to do, and neither what runs nor
        what it goes by has changed, it finds nothing again."""
        if not self._is_at_rest():
            found_nothing = self._reconcile()
            machine = self.machine
            goes_by = (machine.replica, machine.me, machine.has_read, list(self.host.processes))
            self.at_rest = goes_by if found_nothing else ()
        if self.host.keeps_none:
            self.keep_coordinator()

    def _is_at_rest(self) -> bool:
        rest, machine = self.at_rest, self.machine
        return (
            bool(rest)
            and rest[0] is machine.replica
            and rest[1] is machine.me
            and rest[2] is machine.has_read
            and rest[3] == list(self.host.processes)
        )

    def _reconcile(self) -> bool:
        """Whether there was nothing to do, and nothing to wait for."""
        world, host = self.world, self.host
        found = self.machine.work([one.running() for one in host.processes.values()], world.now_ms)
        if found is NOTHING_TO_DO:
            for process in host.processes.values():
                process.moved_ms = None
            return True
        by_unit = {(one.unit, one.generation): one for one in host.processes.values()}
        for process in host.processes.values():
            process.moved_ms = process.moved_ms if process.running() in found.handed_over else None
        for one in found.handed_over:
            process = by_unit[one.unit, one.generation]
            process.moved_ms = world.now_ms if one.moved_ms is None else one.moved_ms
        for one in found.stop:
            process = by_unit[one.unit, one.generation]
            del host.processes[process.pid]
            world.counts["process ended by its agent"] += 1
            self.check_stopped(process)
        for one, unit, place in found.given:
            process = by_unit[one.unit, one.generation]
            process.unit, process.generation, process.stood_by = unit, place.generation, True
            world.counts["process of a standby is the node"] += 1
        for unit, place in found.start:
            self.start(unit, place)
        return False

    def keep_coordinator(self) -> None:
        """Where it can run nothing is done here: what coordinators do is no part of this."""
        for place in self.machine.replica.coordinators:
            if place.agent == self.name and self.machine.may_start(self.world.now_ms):
                self.machine.unit_failed(COORDINATOR, place.generation, "it can't run here")

    def check_stopped(self, process: Process) -> None:
        known = self.world.truth.agents.get(self.name)
        is_mine = known is not None and known.incarnation in self.host.disk
        place = self.world.truth.places().get(process.unit)
        rightly = is_mine and place is not None and place.is_of(self.name, process.generation)
        require(not rightly, NOT_STOPPED, (self.name, process))
        given = is_mine and any(
            is_given(process, self.name, *one) for one in self.world.truth.places().items()
        )
        require(not given, STOOD_BY_IS_THE_NODE, (self.name, process))

    def start(self, unit: Unit, place: Place) -> None:
        if unit[0] in self.host.broken_for:
            self.machine.unit_failed(unit, place.generation, "it can't run here")
            return
        pid = self.world.next_pid()
        self.host.processes[pid] = Process(pid, unit, place.generation)
        self.world.counts["process started"] += 1

    def look_after(self) -> None:
        """What the logs of pipelines say, as long as they can be read."""
        if self.world.log_up and self.host.reaches("control", self.world):
            super().look_after()
