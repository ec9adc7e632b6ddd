"""Several controllers of one region, as they run: the real session, on a loop for which a seed is a schedule, with requests
that are slow, lost, or whose answers are, and processes that are killed between any two callbacks or hang and wake up.

Pipelines are a model: each has a life, may be away, is held or not, and comes to a cut in its own time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import Alarm, DrainMode, RegionSettings, RegionState, Trigger
from kcontrol.core.regions.pods import PodsSaid
from kcontrol.core.regions.records import (
    CutPipeline,
    RegionChange,
    RegionCut,
    RegionEventKind,
    RegionOutcome,
    RegionPods,
    RegionRequest,
    RegionRequestKind,
    RegionRollback,
)
from kcontrol.core.regions.value import event_of, value_of
from kcontrol.errors import RetriableError
from kcontrol.sessions.region import RegionSession, RegionTimes
from kcontrol.sessions.region_ports import MembersSeen
from tests.fakes.memory_regions import MemoryRegionTopic
from tests.simulation.invariants import require
from tests.simulation.regions.asked import Asked
from tests.simulation.regions.definer import Definer
from tests.simulation.regions.lost_alarms import LostAlarms
from tests.simulation.regions.modelled import MEMBERS, LoopClock, Pipelines
from tests.simulation.regions.participant import OUTSIDE, Participant
from tests.simulation.regions.refold import refolded
from tests.simulation.regions.wired_log import WiredLog
from tests.simulation.sessions.loop import Process, SeededLoop

REGION = "r"
FOLDS = "each change of a region follows from the one before it"
ONE_WRITES = "another controller's first record says that it took over, and no older one writes behind it"
CUTS = "a cut is in the log with the change that completed its drain, and its number is never used again"
ANSWERED = "a request that counts is answered once faults have ended"
BACK = "a rollback is begun by who was in charge when it was asked for, and is over once every pipeline was reset for it"
AFTER = "a cut counts once every participant has saved its part"
STANDS = "in a stopped drain no pipeline goes on before all members have done their part"
MEANT = "who gives up a rollback gives up the one that they mean, and no other"
VOID = "what is void is no cut any more"
MAY = "a drain is begun by the period, by a person, or by a member that may ask, and then in its name"
FRESH = "a drain that was asked for is begun after it was asked for"
AGAIN = "whatever write is lost, a periodic region is drained again, and one that is asked"
QUIET_S, FAULTS_S = 400.0, 120.0
_T = TypeVar("_T")


class Members:
    """The RegionMembers port."""

    def __init__(self, world: RegionWorld, controller: str) -> None:
        self._world, self._looks, self._controller = world, 0, controller

    async def look(self, members: Sequence[str]) -> MembersSeen:
        pipelines = self._world.pipelines
        await self._world.wire(lambda: None)
        return MembersSeen(dict(pipelines.lives), not pipelines.away, tuple(sorted(pipelines.away)), ("p",))

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        world = self._world
        require(stays or not world.has_to_stand(self._controller), STANDS, number)
        await world.wire(lambda: world.pipelines.held.update(dict.fromkeys(MEMBERS, world.loop.time() + 15)))
        self._looks += 1
        if Alarm.DRAIN_TIMEOUT in world.losing.left:
            return None
        if world.pipelines.away or self._looks < world.random.randint(1, 12):
            return None
        self._looks = 0
        return tuple(CutPipeline(name, world.pipelines.steps[name], (), ()) for name in MEMBERS)

    async def hold(self, number: int) -> Mapping[str, int]:
        world = self._world
        await world.wire(lambda: world.pipelines.held.update(dict.fromkeys(MEMBERS, world.loop.time() + 120)))
        return dict(world.pipelines.steps)

    async def release(self, number: int) -> frozenset[str]:
        require(not self._world.has_to_stand(self._controller), STANDS, number)
        await self._world.wire(self._world.pipelines.held.clear)
        if Alarm.RESET_TIMEOUT in self._world.losing.left:
            return frozenset()
        return frozenset(name for name in MEMBERS if name not in self._world.pipelines.away)

    async def refuses(self, cut: RegionCut, request: RegionRequest) -> str | None:
        await self._world.wire(lambda: None)
        return self._world.random.choice((None, None, "", "", "", "somebody works"))

    async def take_back(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        world, request_id = self._world, rollback.request_id
        late = [name for name in MEMBERS if request_id not in world.pipelines.resets[name]]
        late = [] if late == [MEMBERS[-1]] and request_id in world.stuck else late
        if late and world.random.random() < 0.4:
            await world.wire(lambda: world.reset(late[0], request_id))
        return world.back(request_id)

    async def give_up(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        await self._world.wire(lambda: None)
        return self._world.back(rollback.request_id)

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ()

    def let_go(self) -> None:
        self._looks = 0


class RegionWorld:
    """One schedule."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.random = random = Random(seed)
        self.counts = counts
        self.loop = SeededLoop(random, random.choice((0.0, 0.3, 0.8)))
        self.topic, self.pipelines = MemoryRegionTopic(), Pipelines()
        settings = RegionSettings(
            REGION,
            MEMBERS,
            period_ms=5_000,
            drain_timeout_ms=8_000,
            reset_timeout_ms=8_000,
            max_reset_attempts=1_000,
            participants=(OUTSIDE,) if random.random() < 0.5 else (),
            participant_lease_ms=6_000,
        )
        if settings.participants:
            settings = replace(settings, members=(*MEMBERS, OUTSIDE))
        self._asks, self._means, self._drains = Random(seed), Random(seed), Random(seed + 1)
        if self._asks.random() < 0.5:
            settings = replace(settings, trigger=Trigger.OPERATOR_DRIVEN, triggers=MEMBERS[:1])
        if self._drains.random() < 0.5:
            settings = replace(settings, drain=DrainMode.STOPPED)
            counts["stopped drains"] += 1
        self.losing = LostAlarms()
        self.stuck: set[str] = set()
        """Rollbacks by which the last pipeline can't be taken back, before the end."""
        self.outside = Participant(self, REGION) if settings.participants else None
        self.asked = Asked({})
        self.definer = Definer(self.asked, settings, Random(seed), counts)
        self._pods = Random(seed)
        self.loss = random.choice((0.0, 0.02, 0.1))
        self.processes: list[Process] = []
        self._dead: list[Process] = []
        self.asked_at: dict[str, int] = {}
        self.as_of: dict[str, int] = {}
        self.askers: dict[str, str] = {}
        self.meant: dict[str, str] = {}
        """By the request that gives a rollback up: the one that it names, or ''."""
        self._started = self._requests = self._led_from = self._pods_said = 0
        self._view, self._read = RegionLogView(), 0

    def run(self) -> None:
        """Raises Violation."""
        try:
            self._run()
        finally:
            for process in (*self._dead, *self.processes):
                process.is_dead, process.paused_until = False, 0.0
            self.loop.end()

    def _run(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._start()
        if self.outside is not None:
            self.loop.create_task(self.outside.run())
        moment = 0.0
        while moment < FAULTS_S:
            moment += self.random.expovariate(0.4)
            self.loop.run_while(lambda: True, moment)
            self._fault()
            self._check()
        self._calm_down()
        asked = self._ask(RegionRequestKind.DRAIN)
        self.loop.run_while(lambda: not self._is_answered(asked), moment + QUIET_S)
        self._check()
        require(self._is_answered(asked), ANSWERED, asked)
        self._check_drained_again()

    def _check_drained_again(self) -> None:
        """With each alarm lost once where it would have been written, and nobody who asks where the region is periodic."""
        self.losing.left = set(Alarm)
        if self.definer.settings.trigger is not Trigger.PERIODIC:
            self.losing.left.discard(Alarm.DRAIN_PERIOD)
            self._ask(RegionRequestKind.DRAIN)
        self.loop.run_while(lambda: bool(self.losing.left), self.loop.time() + QUIET_S)
        before = self._cuts()
        self.loop.run_while(lambda: self._cuts() == before, self.loop.time() + QUIET_S)
        self._check()
        require(not self.losing.left and self._cuts() > before, AGAIN, self.view().newest)
        self.counts["alarms lost"] += self.losing.lost

    def _cuts(self) -> int:
        return sum(isinstance(record, RegionCut) for record in self.topic.records)

    # --- what goes wrong ------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._started += 1
        name = f"c{self._started}"
        process = Process(name)
        times = RegionTimes(keep_changes=40)
        clock = LoopClock(self.loop, self.random.choice((0, 3_600_000, -3_600_000)))
        session = RegionSession(REGION, name, WiredLog(self), self.asked, Members(self, name), clock, times)
        process.context.run(lambda: self.loop.create_task(self._live(session)))
        self.processes.append(process)

    async def _live(self, session: RegionSession) -> None:
        try:
            await session.run()
        except Exception as failure:  # noqa: BLE001 - whatever it is, the schedule ends with it
            self.loop.fail(failure)

    def _fault(self) -> None:
        random, pipelines = self.random, self.pipelines
        name = random.choice(MEMBERS)
        self._say_pods()
        self.definer.act(self.view().newest)
        outside = self.outside
        if outside is not None and random.random() < 0.1:
            self.counts["participants begun again"] += 1
            outside.life = -1
        elif outside is not None and random.random() < 0.1:
            outside.silent_until = self.loop.time() + random.uniform(0, 20)
        match random.randrange(9 if self.definer.is_defined else 6):
            case 0:
                self.counts["killed"] += 1
                killed = self.processes.pop(random.randrange(len(self.processes)))
                killed.is_dead = True
                self._dead.append(killed)
                self._start()
            case 1:
                self.counts["hung"] += 1
                random.choice(self.processes).paused_until = self.loop.time() + random.uniform(0, 40)
            case 2:
                pipelines.lives[name] += 1
            case 3:
                pipelines.away.add(name)
            case 4 | 5:
                pipelines.away.clear()
            case 6:
                asker = self._asks.choice(("", *MEMBERS))
                self._ask(RegionRequestKind.DRAIN, hold=random.random() < 0.3, member=asker)
            case 7:
                self._ask_rollback()
            case _:
                self._ask(random.choice((RegionRequestKind.RESUME, RegionRequestKind.RESET)))

    def _say_pods(self) -> None:
        """Whoever watches them may die after any word, and takes none back."""
        if self._pods.random() < 0.05:
            away = self._pods.choice(((), ("p-0: Pending",)))
            self._pods_said += 1
            self.counts["pods away"] += bool(away)
            self.asked.pods_said = PodsSaid(self._pods_said, RegionPods(REGION, "k", 0, away))

    def _calm_down(self) -> None:
        self.loss = 0.0
        self.stuck.clear()
        if self.outside is not None:
            self.outside.silent_until = 0.0
        self.pipelines.away.clear()
        for process in self.processes:
            process.paused_until = 0.0
        if not self.definer.is_defined:
            self.definer.define()
        self._ask(RegionRequestKind.RESUME)

    def _ask_rollback(self) -> None:
        """As the newest change was, or one that the next controller is not in charge of any more. Where one is under way, most
        often to give it up."""
        view, kind = self.view(), RegionRequestKind.ROLLBACK
        if not view.cuts or view.newest is None:
            return
        self._requests += 1
        to_cut = self.random.choice(sorted(view.cuts))
        if view.newest.rollback is not None and self._asks.random() < 0.7:
            to_cut = 0
            now = view.newest.rollback.request_id
            self.meant[f"q{self._requests}"] = self._means.choice(("", now, now, *self.as_of))
        as_of = max(0, view.newest.number - self.random.choice((0, 0, 20)))
        self.asked.wanted[kind] = RegionRequest(
            *(REGION, kind, "ana", 0, f"q{self._requests}"),
            to_cut=to_cut,
            as_of=as_of,
            gives_up=self.meant.get(f"q{self._requests}", ""),
        )
        self.as_of[f"q{self._requests}"] = as_of
        if self._asks.random() < 0.5:
            self.stuck.add(f"q{self._requests}")

    def reset(self, name: str, request_id: str) -> None:
        """Nobody is reset twice for one rollback: the pipeline's log says so."""
        if request_id not in self.pipelines.resets[name]:
            self.pipelines.resets[name].append(request_id)

    def back(self, request_id: str) -> frozenset[str]:
        return frozenset(name for name in MEMBERS if request_id in self.pipelines.resets[name])

    def _ask(self, kind: RegionRequestKind, *, hold: bool = False, member: str = "") -> RegionRequest:
        self._requests += 1
        request = RegionRequest(REGION, kind, "ana", 0, f"q{self._requests}", hold, force=True, member=member)
        self.askers[request.request_id] = member
        self.asked.wanted[kind] = request
        view = self.view()
        newest = view.newest
        if newest is not None:
            under_way = newest.state is RegionState.DRAINING
            self.asked_at[request.request_id] = newest.current_seq_id + under_way
        return request

    # --- the network ----------------------------------------------------------------------------------------

    async def wire(self, do: Callable[[], _T]) -> _T:
        async def once() -> _T:
            return do()

        return await self.call(once)

    async def call(self, do: Callable[[], Awaitable[_T]]) -> _T:
        """A request that is on its way for a while, lost, or loses its answer."""
        await asyncio.sleep(self.random.choice((0.0, 0.001, 0.05, 0.4)))
        if self.random.random() < self.loss:
            raise RetriableError("the request was lost")
        done = await do()
        await asyncio.sleep(self.random.choice((0.0, 0.001, 0.05, 0.4)))
        if self.random.random() < self.loss:
            raise RetriableError("the answer was lost")
        return done

    # --- what has to hold -----------------------------------------------------------------------------------

    def view(self) -> RegionLogView:
        """Of all records: those since the last time are read on."""
        records = self.topic.records
        if len(records) > self._read:
            self._view, self._read = read_on(self._view, records[self._read :]), len(records)
        return self._view

    def has_to_stand(self, controller: str) -> bool:
        """Of pipelines, by what the log says of the drain of the controller that is in charge; of another nothing is known."""
        newest, definition = self.view().newest, self.asked.definitions.get(REGION)
        if newest is None or definition is None or self.view().owner != controller:
            return False
        is_draining = newest.state is RegionState.DRAINING and newest.settings.drain is DrainMode.STOPPED
        return is_draining and definition.request_id == newest.definition_id

    def _is_answered(self, request: RegionRequest) -> bool:
        value = self.view().value
        answer = None if value is None else value.answers.get(request.kind)
        return (
            answer is not None
            and answer.request_id == request.request_id
            and answer.outcome is RegionOutcome.DONE
        )

    def _check(self) -> None:
        """The log from its beginning: nothing is taken out of it here, tombstones are marks."""
        before: RegionChange | None = None
        cuts: set[int] = set()
        led: list[str] = []
        self._led_from = 1
        for record in self.topic.records:
            if isinstance(record, RegionChange):
                self._check_change(before, record, led)
                before = record
            elif isinstance(record, RegionCut):
                require(record.number not in cuts, CUTS, record)
                require(self.outside is None or record.number in self.outside.saved, AFTER, record)
                require(before is not None and before.last_completed_seq_id == record.number, CUTS, record)
                cuts.add(record.number)
        if before is not None:
            require(before.last_completed_seq_id in (0, *cuts), CUTS, before)
            require(max(self.view().cuts, default=0) <= before.last_completed_seq_id, VOID, before)
            self.counts["cuts"] = max(self.counts["cuts"], len(cuts))
            self.counts[f"state {before.state}"] += 1

    def _check_change(self, before: RegionChange | None, now: RegionChange, led: list[str]) -> None:
        require(now.number == (0 if before is None else before.number) + 1, FOLDS, now)
        if not led or led[-1] != now.controller:
            kinds = (RegionEventKind.TOOK_OVER,) if before is not None else (RegionEventKind.DEFINED,)
            require(now.happened.kind in kinds, ONE_WRITES, now)
            self.counts["taken over"] += bool(led)
            led.append(now.controller)
            self._led_from = now.number
        if before is None:
            return
        event = event_of(now.happened)
        require(refolded(before, now), FOLDS, (before, now))
        self.definer.check(before, now)
        self._check_rollback(before, now)
        if event is not None and now.happened.kind is RegionEventKind.DRAIN_ASKED:
            require(value_of(before).region.state is RegionState.PROCESSING, FOLDS, now)
            require(now.current_seq_id >= self.asked_at.get(now.drain_for, 0), FRESH, now)
            member = now.happened.member
            require(member == self.askers[now.drain_for], MAY, now)
            require(member in ("", *now.settings.triggers), MAY, now)
            self.counts["drains of members"] += bool(member)

    def _check_rollback(self, before: RegionChange, now: RegionChange) -> None:
        kind = RegionRequestKind.ROLLBACK
        if now.happened.kind is RegionEventKind.ROLLBACK_ASKED:
            asked = (
                value_of(now).answers[kind].request_id if now.rollback is None else now.rollback.request_id
            )
            require(bool(self.meant.get(asked)) or self.as_of[asked] >= self._led_from, BACK, now)
        if before.rollback is None or now.rollback is not None:
            return
        back = set(MEMBERS)
        if now.gives_up:
            self.counts["given up"] += 1
            meant = self.meant[value_of(now).answers[kind].request_id]
            require(meant in ("", before.rollback.request_id), MEANT, now)
            said = value_of(now).answers[kind].why.partition("; not: ")[0].partition(": ")[2]
            back &= set(said.split(", "))
        require(back <= self.back(before.rollback.request_id), BACK, (back, now))
        require(now.last_completed_seq_id == before.rollback.to_cut, BACK, now)
        self.counts["rolled back"] += not now.gives_up
