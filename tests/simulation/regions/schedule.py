"""One schedule of a region: members that die, lie and are late, coordinators that are replaced at any event, hints that
are lost; then a time without faults, in which it has to come back.

All that is random comes from one generator, so a seed is a schedule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kcontrol.core.regions.decide import WhyIgnored, decide_region
from kcontrol.core.regions.events import (
    PERSON,
    AlarmWentOff,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainAsked,
    HealthSeen,
    MemberJoined,
    RegionEvent,
    ResetAsked,
    ResetDone,
    ResumeAsked,
    RollbackAbandoned,
    RollbackAsked,
    RolledBack,
    TookOver,
)
from kcontrol.core.regions.model import Alarm, Region, RegionSettings, RegionState, Trigger
from tests.simulation.draws import Draws
from tests.simulation.invariants import require
from tests.simulation.regions.invariants import COMES_BACK, check_event
from tests.simulation.regions.members import Member

EVENTS = 400
_ROUNDS = 200
_HISTORY = 12
"""So many states back reaches what a server that lags may show."""
_WELL, _ILL, _UNKNOWN = HealthSeen(True), HealthSeen(False), HealthSeen(None)
_IGNORED = {why: f"ignored: {why}" for why in WhyIgnored}


@dataclass
class RegionSchedule:
    """region: as it is in the log. drains, came_to, left: by number, what was seen of it."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    rows: Counter[tuple[RegionState, RegionState]] = field(default_factory=Counter)
    tick: int = 0
    owes_reset: bool = False
    drains: set[int] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)
    came_to: dict[int, dict[str, int]] = field(default_factory=dict)
    left: dict[int, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random = Draws(self.seed)
        names = tuple(f"m{number}" for number in range(random.between(1, 4)))
        self.members = [Member(name, random.random() < 0.5) for name in names]
        self.region = Region.started(
            RegionSettings(
                "r",
                names,
                random.one_of(tuple(Trigger)),
                triggers=("m0",),
                max_reset_attempts=random.between(1, 6),
            )
        )
        self.hint_loss = random.one_of((0.0, 0.5, 1.0))
        self.rate = random.one_of((0.005, 0.02, 0.1))
        self.states: list[Region] = [self.region]
        self.net: list[RegionEvent] = [MemberJoined(name, 1) for name in names]
        self.writing: list[tuple[Member, int, int]] = []
        self.alarms: list[int] = []

    # --- the coordinator ------------------------------------------------------------------------------------

    def see(self, event: RegionEvent) -> None:
        """Decided, committed and checked."""
        before = self.region
        decision = decide_region(before, event)
        self.region = after = decision.region
        if decision.ignored is not None:
            self.counts[_IGNORED[decision.ignored]] += 1
        self.rows[before.state, after.state] += 1
        check_event(self, before, event, decision.ignored is not None)
        if after is not before and (after.timer != before.timer or after != before):
            self.states.append(after)
            if after.timer != before.timer and after.alarm is not None:
                self.alarms.append(after.timer)

    def take_over(self) -> None:
        """What the one before has decided last may not have come into the log: then it was never decided."""
        self.counts["takeovers"] += 1
        self.see(TookOver())

    def look_at_health(self) -> None:
        known, seen = self.region.lives, _WELL
        for member in self.members:
            if not member.up or known.get(member.name) != member.life:
                seen = _ILL
        self.see(seen if len(known) == len(self.members) else _UNKNOWN)

    # --- members --------------------------------------------------------------------------------------------

    def send(self, event: RegionEvent) -> None:
        if event not in self.net:
            self.net.append(event)

    def begin_saving(self, member: Member, number: int) -> None:
        if (member, number, member.life) not in self.writing:
            self.writing.append((member, number, member.life))

    def poll(self, member: Member, back: int = 0) -> None:
        version = max(0, len(self.states) - 1 - back)
        member.look(self, version, self.states[version])

    def poll_all(self) -> None:
        newest, region = len(self.states) - 1, self.states[-1]
        for member in self.members:
            member.look(self, newest, region)

    def _save(self) -> None:
        member, number, life = self.writing.pop(self.random.below(len(self.writing)))
        if member.life == life:
            member.save(number)

    # --- what happens ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Violation at the first invariant that does not hold."""
        draw = self.random.random
        for _ in range(EVENTS):
            self.tick += 1
            self._happen()
            if draw() > self.hint_loss:
                self.poll_all()
        self._come_back()

    def _happen(self) -> None:
        random, draw = self.random, self.random.random
        chance = draw()
        if draw() < self.rate:
            self._go_wrong()
        elif self.region.state is RegionState.GOING_BACK and chance < 0.3:
            self._give_up() if chance < 0.02 else self._take_back()
        elif chance < 0.40:
            lags = draw() < 0.2
            self.poll(random.one_of(self.members), random.between(1, _HISTORY) if lags else 0)
        elif chance < 0.70 and self.net:
            self._deliver()
        elif chance < 0.80 and self.writing:
            self._save()
        elif chance < 0.88 and self.alarms:
            self._go_off()
        elif chance < 0.94:
            number = self.region.current_seq_id
            who = random.one_of(("m0", "m0", "m1", "nobody", PERSON))
            self.see(DrainAsked(who, number + random.one_of((0, 0, -1, 1)), hold=random.random() < 0.2))
        elif self.region.is_held and chance < 0.955:
            self.see(ResumeAsked())
        elif self.region.state is RegionState.SPENT and chance < 0.96:
            self._ask_reset()
        else:
            self.look_at_health()

    def _go_off(self) -> None:
        """The alarm that is set, a deadline seldom; or any that was set before, and was not called off in time."""
        random = self.random
        if random.random() < 0.3:
            self.see(AlarmWentOff(random.one_of(self.alarms)))
        elif self.region.alarm is Alarm.DRAIN_PERIOD or random.random() < 0.04:
            self.see(AlarmWentOff(self.region.timer))

    def _deliver(self) -> None:
        random = self.random
        event = self.net.pop(random.below(len(self.net)) if random.random() < 0.3 else 0)
        if random.random() < 0.1:
            self.net.append(event)
        if random.random() < 0.05 and not isinstance(event, MemberJoined):
            return
        if random.random() < 0.01:
            self.take_over()
        self.see(event)

    def _go_wrong(self) -> None:
        random = self.random
        random.one_of(
            (
                self._kill,
                self._begin,
                self.take_over,
                self._ask_reset,
                self._roll_back,
                self._take_back,
                self._give_up,
                self._lie,
                self._strangers,
                self._wake_up,
            )
        )()
        self.counts["faults"] += 1

    def _kill(self) -> None:
        self.random.one_of(self.members).die()

    def _begin(self) -> None:
        """Of one that died, or whose death nobody has seen."""
        member = self.random.one_of(self.members)
        member.begin()
        self.net.append(MemberJoined(member.name, member.life))

    def _ask_reset(self) -> None:
        spent = self.region.state is RegionState.SPENT
        self.see(ResetAsked(force=self.random.random() < (0.9 if spent else 0.2)))

    def _roll_back(self) -> None:
        """To a cut that all still have; or somebody asks for one that there never was."""
        region, random = self.region, self.random
        if random.random() < 0.1:
            self.see(RollbackAsked(random.one_of((0, region.last_completed_seq_id + 1))))
            return
        held = set.intersection(*(member.saved for member in self.members)) & self.completed
        numbers = sorted(number for number in held if number <= region.last_completed_seq_id)
        if not numbers:
            return
        self.counts["rollbacks"] += 1
        for member in self.members:
            member.die()
        self.see(RollbackAsked(random.one_of(numbers)))
        if self.region != region:
            # Otherwise another one is under way, to a cut that is older.
            for member in self.members:
                member.back_at = 0

    def _take_back(self) -> None:
        """One member, which is not at work then; or that is said of nobody, or of another rollback."""
        region, random = self.region, self.random
        member, number = random.one_of(self.members), region.going_back_to
        if number and random.random() < 0.8:
            member.go_back(number)
            self.counts["taken back"] += 1
            self.see(RolledBack(member.name, number))
        else:
            name = random.one_of((member.name, "nobody"))
            others = {0, 1, region.last_completed_seq_id, number + 1} - {number}
            self.see(RolledBack(name, random.one_of(sorted(others))))

    def _give_up(self) -> None:
        """Also where there is nothing to be given up."""
        self.counts["given up"] += self.region.state is RegionState.GOING_BACK
        self.see(RollbackAbandoned())

    def _lie(self) -> None:
        """What nobody who is a member now has said of the number that counts now."""
        random, region = self.random, self.region
        who, life = random.one_of((("nobody", 1), ("m0", -1), ("m0", self.members[0].life + 10_000)))
        numbers = (region.current_seq_id, region.pending_seq_id, region.last_completed_seq_id)
        number = random.one_of(numbers)
        self.see(random.one_of((CheckpointDone, BlockingCheckpointDone))(who, life, number))
        self.see(ResetDone(who, life, region.last_completed_seq_id, region.reset_attempt - 1))
        self.see(ResetDone("m0", self.members[0].life, region.last_completed_seq_id, region.reset_attempt))

    def _strangers(self) -> None:
        """As many as there are members say what is wanted of these."""
        number = self.region.current_seq_id
        for who in ("x", "y", "z", "u"):
            self.see(MemberJoined(who, 1))
            self.see(CheckpointDone(who, 1, number))

    def _wake_up(self) -> None:
        """A life that was thought dead does what its successor is told, and says so."""
        member, region = self.random.one_of(self.members), self.region
        old = region.lives.get(member.name, 0) - 1
        if old < 1:
            return
        number = region.current_seq_id if region.state is RegionState.DRAINING else region.pending_seq_id
        self.net.append(CheckpointDone(member.name, old, number))
        self.net.append(ResetDone(member.name, old, region.last_completed_seq_id, region.reset_attempt - 1))

    # --- the end --------------------------------------------------------------------------------------------

    def _come_back(self) -> None:
        number = self.region.going_back_to
        for member in self.members if number else ():
            member.go_back(number)
            self.see(RolledBack(member.name, number))
        for member in self.members:
            if not member.up:
                member.begin()
                self.net.append(MemberJoined(member.name, member.life))
        while self.net:
            self.see(self.net.pop(0))
        self.see(_ILL)
        self.look_at_health()
        if self.region.state is RegionState.SPENT:
            self.counts["spent"] += 1
            self.see(ResetAsked(force=True))
        had = self.region.last_completed_seq_id
        for _ in range(_ROUNDS):
            self.tick += 1
            self.poll_all()
            while self.writing:
                self._save()
            while self.net:
                self.see(self.net.pop(0))
            if self.region.last_completed_seq_id > had and self.region.state is RegionState.PROCESSING:
                return
            if self.region.is_held:
                self.see(ResumeAsked())
            if self.region.state is RegionState.PROCESSING:
                periodic = self.region.alarm is Alarm.DRAIN_PERIOD
                number = self.region.current_seq_id
                self.see(AlarmWentOff(self.region.timer) if periodic else DrainAsked("m0", number))
        require(False, COMES_BACK, self.region)
