"""An agent as a machine without I/O: what was read goes in, what to say and what to run comes out.

The shell reads the log and the beats and tells it (`read`, `read_to_end`, `hear`), asks what is to be said
(`beat`, `entry`) and what became of it, and asks what is to be run (`work`). Times are of the shell's
monotonic clock, in ms. Nothing is queued: what is due is computed when it is about to be said, so nothing is
said that was true before an outage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.coordinators import raised_to
from kcontrol.core.cluster.differing import DifferingValue, OwnDifferences
from kcontrol.core.cluster.duties import Identity, duties, goodbye, lives, snapshot_duties
from kcontrol.core.cluster.entries import ClusterEntry, CompleteTask, JobResized, TaskFailed
from kcontrol.core.cluster.fit_wards import Fitting, FitWards
from kcontrol.core.cluster.fitness import Fitness
from kcontrol.core.cluster.liveness import (
    Beat,
    Liveness,
    attend,
    differs_from_most,
    hear,
    judges_nobody,
)
from kcontrol.core.cluster.model import (
    ANOTHER_LIFE_LEVEL,
    COORDINATOR,
    COORDINATOR_LEVEL,
    EMPTY,
    NO_MARK,
    AgentStage,
    Mark,
    Place,
    Replica,
    Unit,
)
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.resize_wards import Resizing, resizings, to_be_said
from kcontrol.core.cluster.schedule.keepers import is_able
from kcontrol.core.cluster.unit_ends import Hope, LeftOut, UnitEnds, UnitFailures
from kcontrol.core.cluster.wards import Ward, wards
from kcontrol.core.cluster.work import NOTHING_TO_DO, RunningUnit, Work, wanted, work


@dataclass(frozen=True, slots=True)
class SavedReplica:
    """The value at an offset at which snapshots may be taken."""

    offset: int
    digest: str
    replica: Replica


class AgentMachine:
    """One process of an agent, over all its incarnations.

    removed: it was taken for dead, or left; the shell then calls `begin` with a new incarnation. ended: why
    the process must end; '' as long as it need not. next_offset: of the log, to be read next. left_out: units, by
    placement, that are not to be started again; the shell remembers them over lives.
    """

    def __init__(
        self,
        me: Identity,
        limits: AgentLimits,
        now_ms: int,
        before: str = "",
        left_out: Iterable[LeftOut] = (),
    ) -> None:
        self.me = me
        self.replica = EMPTY
        self.removed = False
        self.ended = ""
        self.saved: SavedReplica | None = None
        self.liveness = Liveness(me.who)
        self._ends = UnitEnds(limits.failures, left_out)
        self._limits = limits
        self._before = before
        """The incarnation whose units it adopts, and for which it speaks until it is known itself."""
        self._has_read = False
        self._fitness = Fitness(limits.unfit_ms, now_ms)
        self._marks: dict[int, str] = {}
        self._newest_mark = NO_MARK
        self._differences = OwnDifferences()
        self._sent_ms: dict[int, int] = {}
        self._seq = 0
        self._in_touch_ms: int | None = None
        self._beat_ms: int | None = None
        self._flight: ClusterEntry | None = None
        self._said_ms: dict[ClusterEntry, int] = {}
        self._not_before_ms = now_ms
        self._member_since_ms: int | None = None
        self._removals = 0
        self._done: set[Ward] = set()
        self._resized: dict[str, JobResized] = {}
        self._fits = FitWards(limits.steady_ms)
        self._leaving = ""

    @property
    def has_read(self) -> bool:
        """The log to its end, once."""
        return self._has_read

    @property
    def name_is_taken(self) -> bool:
        """Whether an agent of its name is in the value that was none of its incarnations."""
        return self.me.name in self.replica.agents and not (
            self.me.is_known_by(self.replica) or self.me.was_known_by(self.replica)
        )

    @property
    def next_offset(self) -> int:
        return self.replica.offset + 1

    @property
    def late_ms(self) -> int:
        return self._limits.late_beats * self.replica.policy.beat_ms

    @property
    def poll_ms(self) -> int:
        """So often the shell looks at the log and at beats, or more often: four times between two beats, so that nothing is
        late by its looking alone."""
        return max(self._limits.shortest_poll_ms, self.replica.policy.beat_ms // 4)

    def begin(self, incarnation: str, now_ms: int) -> None:
        """After it was removed: as a new incarnation, which has nothing of the old one's, and joins after a
        while."""
        self.me = replace(self.me, incarnation=incarnation, earlier=(*self.me.earlier, self.me.incarnation))
        self.removed = False
        self._before, self._leaving = "", ""
        self.liveness = attend(Liveness(self.me.who), lives(self.replica))
        self._sent_ms, self._seq, self._in_touch_ms = {}, 0, None
        self._fitness.begin()
        self._flight = None
        self._said_ms = {}
        self._ends.begin()
        since, self._member_since_ms = self._member_since_ms, None
        settled = since is not None and now_ms - since > self._limits.longest_backoff_ms
        self._removals = 0 if settled else self._removals + 1
        self._not_before_ms = now_ms + self._backoff_ms()

    def _backoff_ms(self) -> int:
        """Doubled each time, and within it a different one for each incarnation."""
        longest = min(self._limits.longest_backoff_ms, self._limits.backoff_ms << min(self._removals, 16))
        drawn = int.from_bytes(hashlib.sha256(self.me.incarnation.encode()).digest()[:4])
        return self._limits.backoff_ms // 2 + drawn % longest

    # --- what was read ------------------------------------------------------------------------------------

    def restore(self, replica: Replica) -> None:
        """From a confirmed snapshot, as what is before it was deleted from the log."""
        was = self.me.is_known_by(self.replica)
        self.replica = replica
        if not self._knows_level():
            self._end_of_level()
            return
        sha = digest(replica)
        self._marks, self._newest_mark = {replica.offset: sha}, Mark(replica.offset, sha)
        self.saved = SavedReplica(replica.offset, sha, replica)
        self._look_for_oneself(was)

    def read(self, offset: int, entry: ClusterEntry | None) -> None:
        """One more entry of the log; None for one that nobody can read."""
        if not self._knows_level():
            self._end_of_level()
            return
        was, agents = self.me.is_known_by(self.replica), self.replica.agents
        self._apply(offset, entry)
        if offset % self.replica.policy.digest_every == 0:
            self._mark()
        if self.replica.agents is not agents:
            self._look_for_oneself(was)

    def _knows_level(self) -> bool:
        return self.replica.level <= self.me.levels[1]

    def _end_of_level(self) -> None:
        self.ended = (
            f"the cluster's level is {self.replica.level}, and this agent supports "
            f"{self.me.levels[0]} to {self.me.levels[1]}: install a newer version"
        )

    def _apply(self, offset: int, entry: ClusterEntry | None) -> None:
        if entry is not None:
            self._said_ms.pop(entry, None)
        self.replica = self._made_of(offset, entry)

    def _made_of(self, offset: int, entry: ClusterEntry | None) -> Replica:
        if entry is None:
            return self.replica.but(offset=offset)
        return apply(self.replica, offset, entry, self.me.levels[1])[0]

    def _mark(self) -> None:
        sha = digest(self.replica)
        self._marks[self.replica.offset], self._newest_mark = sha, Mark(self.replica.offset, sha)
        while len(self._marks) > self._limits.marks:
            del self._marks[next(iter(self._marks))]
        if self.replica.offset % self.replica.policy.snapshot_every == 0:
            self.saved = SavedReplica(self.replica.offset, sha, self.replica)

    def _look_for_oneself(self, was_known: bool) -> None:
        self.liveness = attend(self.liveness, lives(self.replica))
        if not was_known or self.me.is_known_by(self.replica):
            return
        if self.me.name in self.replica.agents:
            self.ended = "another process of this agent has taken over"
        else:
            self.removed = True

    def read_to_end(self, now_ms: int) -> None:
        """All that the log held a moment ago was read, as far as its broker knew."""
        self._has_read = True
        self._fitness.read(self.replica, now_ms)
        if self._member_since_ms is None and self.replica.stage(self.me.name) is AgentStage.MEMBER:
            self._member_since_ms = now_ms

    def hear(self, *beats: Beat) -> None:
        """More beats, in the order of the log."""
        was, name = self.liveness, self.me.name
        self.liveness = hear(was, beats, self.replica.policy)
        self._fitness.heard(beat for beat in beats if beat.agent != name)
        if self.liveness.own > was.own:
            self._fitness.beat_came_back()
            back = self.liveness.back
            self._in_touch_ms = self._sent_ms.pop(back, None)
            self._sent_ms = {seq: at for seq, at in self._sent_ms.items() if seq > back}
        if differs_from_most(self._marks_of_others().values(), self._marks):
            self.ended = "its value differs from that of most others: its digests say so"

    def differences(self) -> list[DifferingValue]:
        """Others that have made another value of the log, each once an offset."""
        return self._differences.new(self._marks_of_others(), self._marks)

    def _marks_of_others(self) -> dict[str, Mark]:
        """Of those that the value knows: others may have read another log, or have left, with the mark that they had then."""
        known, name = self.replica.agents, self.me.name
        return {one: mark for one, mark in self.liveness.marks.items() if one in known and one != name}

    # --- what to say --------------------------------------------------------------------------------------

    def beat(self, now_ms: int) -> Beat | None:
        """The next beat, if it is time. The shell says `beat_sent` once the log has it, and asks for no other
        before."""
        if self.ended or not self._fitness.fits(now_ms):
            return None
        if self._beat_ms is not None and now_ms - self._beat_ms < self.replica.policy.beat_ms:
            return None
        gap = self._beat_ms is None or now_ms - self._beat_ms > self.late_ms
        self._sent_ms[self._seq] = now_ms
        self._seq += 1
        before = "" if self.me.is_known_by(self.replica) else self._before
        return Beat(*self.me.who, self._seq - 1, gap, self.replica.offset, self._newest_mark, before)

    def beat_sent(self, now_ms: int) -> None:
        self._beat_ms = now_ms
        self._fitness.beat_sent(now_ms)

    def in_touch(self, now_ms: int) -> bool:
        """The newest of its own beats that came back was *sent* lately; when it came back says nothing, as
        that may have been a backlog."""
        return self._in_touch_ms is not None and now_ms - self._in_touch_ms <= self.late_ms

    def up_to_date(self, now_ms: int) -> bool:
        """The log was read to its end lately, and as far as others have read it. Who has not, neither writes nor starts
        anything: what it knows is old."""
        return self._has_read and self._fitness.since_read_ms(now_ms) <= self.late_ms

    def leave(self, reason: str) -> None:
        """Say goodbye, as soon as it can be said."""
        self._leaving = reason

    def entry(self, now_ms: int) -> ClusterEntry | None:
        """What to append now, or None. At most one append is under way: the shell says what became of it."""
        if self.ended or self.removed or self._flight is not None or not self.may_write(now_ms):
            return None
        if self._said_ms:
            self._said_ms = {
                one: at for one, at in self._said_ms.items() if not self._may_be_said(one, now_ms)
            }
        due = next((one for one in self._due(now_ms) if self._may_be_said(one, now_ms)), None)
        if due is not None:
            self._said_ms[due] = now_ms
            self._flight = due
        return due

    def _may_be_said(self, entry: ClusterEntry, now_ms: int) -> bool:
        at = self._said_ms.get(entry)
        return at is None or now_ms - at >= self._limits.ask_again_ms

    def may_write(self, now_ms: int) -> bool:
        """It has read the log lately, and is known by it, or may ask to be."""
        if not self.up_to_date(now_ms):
            return False
        if self.me.is_known_by(self.replica) or self.me.was_known_by(self.replica):
            return True
        return now_ms >= self._not_before_ms and self._hears_itself(now_ms)

    def _hears_itself(self, now_ms: int) -> bool:
        """Nobody asks to join before its own beats come back: others would not hear it either."""
        return self.in_touch(now_ms)

    def _due(self, now_ms: int) -> list[ClusterEntry]:
        if self._leaving and self.me.is_known_by(self.replica):
            return [goodbye(self.replica, self.me, self._leaving)]
        liveness = self.liveness if self.in_touch(now_ms) else judges_nobody(self.liveness)
        return [
            *duties(self.replica, self.me, liveness),
            *(self._failed() if self._ends.has_failures else ()),
            *(self._completed() if self._done else ()),
            *(self._seen_resized() if self._resized else ()),
            *self._fits.due(self.replica),
            *(snapshot_duties(self.replica, self.me, self._marks) if self._limits.snapshots else ()),
        ]

    def appended(self) -> None:
        """The entry that was under way is in the log."""
        self._flight = None
        self._fitness.appended()

    def withheld(self) -> None:
        """The shell has not said it, as it is not true of what is stored; it is due again after a while."""
        self._flight = None

    def prepared(self, entry: ClusterEntry) -> None:
        """What was withheld is true by now, and so is due at once."""
        self._said_ms.pop(entry, None)

    def not_appended(self, now_ms: int, reads: bool) -> None:
        """It was given up; it may be in the log all the same. reads: the log could be read meanwhile, so only
        writing fails."""
        if self._flight is not None:
            self._said_ms.pop(self._flight, None)
        self._flight = None
        self._fitness.not_appended(now_ms, reads)

    # --- what to run --------------------------------------------------------------------------------------

    def work(self, running: Iterable[RunningUnit], now_ms: int) -> Work:
        """What to end and to start. Nothing is ended before the log was read once, and nothing started while
        it was not lately, or before this incarnation is in the log."""
        if not self._has_read:
            return NOTHING_TO_DO
        found = work(self.replica, self.me, tuple(running), now_ms, self._limits.handover_ms)
        if found is NOTHING_TO_DO:
            return found
        if not self.may_start(now_ms):
            return replace(found, start=(), given=())
        return replace(found, start=tuple(one for one in found.start if not self._is_over(*one)))

    def _is_over(self, unit: Unit, place: Place) -> bool:
        return self._ends.is_over((unit, place.generation), self.replica.founded_ms)

    def may_start(self, now_ms: int) -> bool:
        return self.up_to_date(now_ms) and self.me.is_known_by(self.replica) and not self.ended

    def unit_failed(self, unit: Unit, generation: int, error: str, hope: Hope = Hope.HERE) -> None:
        """A process of this placement has ended by itself. One that may do better here is reported only when it fails
        again and again."""
        self._ends.failed((unit, generation), error[: self._limits.error_characters], hope)

    def unit_lasted(self, unit: Unit, generation: int) -> None:
        """It has run for so long that earlier ends of it say nothing."""
        self._ends.lasted((unit, generation))

    def unit_left_out(self, unit: Unit, generation: int) -> frozenset[LeftOut]:
        """Its pipeline has no such node any more: it is not started again by this placement, and nothing has failed.

        All such units, for the shell to remember.
        """
        mine = wanted(self.replica, self.me) if self._has_read else None
        self._ends.leave_out(LeftOut(unit, generation, self.replica.founded_ms), mine)
        return self._ends.left_out

    def _failed(self) -> list[ClusterEntry]:
        mine = dict(wanted(self.replica, self.me)) if self.me.is_known_by(self.replica) else {}
        if is_able(self.replica, self.me.name):
            mine |= [(COORDINATOR, one) for one in self.replica.coordinators if one.agent == self.me.name]
        return [
            one
            for (unit, generation), failures in self._ends.due(mine)
            if (one := self._as_failed(unit, generation, failures)) is not None
        ]

    def _as_failed(self, unit: Unit, generation: int, failures: UnitFailures) -> ClusterEntry | None:
        if unit == COORDINATOR and self.replica.level < COORDINATOR_LEVEL:
            return raised_to(self.replica, COORDINATOR_LEVEL)
        raised = raised_to(self.replica, ANOTHER_LIFE_LEVEL)
        if raised is not None:
            return raised
        return TaskFailed(*unit, generation, *self.me.who, failures.error, failures.hope is Hope.NOWHERE)

    # --- what is done -------------------------------------------------------------------------------------

    def wards(self) -> tuple[Ward, ...]:
        """Tasks of which the shell has to look whether they are done."""
        return wards(self.replica, self.me)

    def task_done(self, ward: Ward) -> None:
        """All that a task was to do is done: to be said until the value says so."""
        self._done.add(ward)

    def _completed(self) -> list[ClusterEntry]:
        self._done.intersection_update(self.wards())
        return [CompleteTask(one.job, one.revision, one.task) for one in sorted(self._done)]

    # --- another number of nodes --------------------------------------------------------------------------

    def resizings(self) -> tuple[Resizing, ...]:
        """Jobs of whose pipelines the shell has to ask for another layout, and to see what they have."""
        return resizings(self.replica, self.me)

    def resized(self, one: Resizing, nodes: int) -> None:
        """Its pipeline has so many nodes, and no change is under way: to be said, unless the value says so."""
        self._resized[one.job] = one.seen(nodes)

    def _seen_resized(self) -> list[ClusterEntry]:
        self._resized = to_be_said(self.replica, self._resized.values())
        return [self._resized[job] for job in sorted(self._resized)]

    # --- as many nodes as the cluster has room for -------------------------------------------------------

    def fittings(self, now_ms: int) -> tuple[Fitting, ...]:
        """Jobs that follow the size of the cluster, of whose pipelines the shell has to see whether they can."""
        return self._fits.look(self.replica, self.me, now_ms)

    def fitted(self, one: Fitting, nodes: int, anew: bool) -> None:
        """Its pipeline can have so many nodes. anew: by beginning anew with all of them."""
        self._fits.can_have(one, nodes, anew)
