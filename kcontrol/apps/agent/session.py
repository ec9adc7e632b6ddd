"""The loop of an agent: what was read goes into the core's machine, what it wants said and run is done.

Reading, speaking, beating and all that looks at something else are tasks of their own, because each may wait for Kafka for as
long as its deadline says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.cluster_log import (
    OF_ANOTHER_LOG,
    KafkaBeats,
    KafkaClusterLog,
    LogCutError,
)
from kcontrol.apps.agent.burials import Burials
from kcontrol.apps.agent.commands import Commands
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.endings import EndTeller
from kcontrol.apps.agent.fitting import FitWarden
from kcontrol.apps.agent.processes import EndedProcess, HostProcesses
from kcontrol.apps.agent.remembering import Remembering
from kcontrol.apps.agent.repeating import again_and_again
from kcontrol.apps.agent.resizing import ResizeWarden
from kcontrol.apps.agent.restarts import Restarts, says_nothing_of_the_host
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.apps.agent.snapshots import SnapshotStore
from kcontrol.apps.agent.spares import Spares, is_spare
from kcontrol.apps.agent.waiting import WaitingAgent
from kcontrol.apps.agent.warden import Warden
from kcontrol.apps.exit_codes import ExitVerdict, verdict_of
from kcontrol.backoff import Backoff
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.coordinators import gone_coordinators
from kcontrol.core.cluster.end_wards import ended_jobs
from kcontrol.core.cluster.model import COORDINATOR, Place, Replica, Unit
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.core.cluster.unit_ends import Hope, may_be_of
from kcontrol.core.cluster.work import RunningUnit, wanted
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError, RetriableError

_log = logging.getLogger("kcontrol.agent")


class AgentSession:
    """One process of an agent. tell: hears of what happens, in words."""

    def __init__(
        self,
        machine: AgentMachine,
        disk: AgentDisk,
        log: KafkaClusterLog,
        beats: KafkaBeats,
        store: SnapshotStore,
        processes: HostProcesses,
        warden: Warden,
        resizes: ResizeWarden,
        fits: FitWarden,
        ends: EndTeller,
        burials: Burials,
        command: Commands,
        tell: Callable[[str], None],
        options: SessionOptions,
        limits: AgentLimits,
    ) -> None:  # fmt: skip
        self._machine, self._log, self._beats, self._store = machine, log, beats, store
        self._processes, self._warden, self._ends = processes, warden, ends
        self._resizes, self._fits, self._burials = resizes, fits, burials
        self._command, self._tell, self._memory = command, tell, Remembering(disk, tell)
        self._options, self._limits = options, limits
        self._clock = SystemClock()
        self._waiting = WaitingAgent(tell, options.give_up_ms)
        pauses = Backoff(options.restart_ms, options.longest_restart_ms)
        self._restarts = Restarts(pauses, options.short_life_s)
        self._spares = Spares(options.spare_after_ms)
        self._troubles, self._said_ms = AgentTroubles("", ""), 0
        self._ended: list[EndedProcess] = []
        """What that means is known once the log was read: it may be of another one."""
        self._restored = -1
        """The snapshot from which it goes on. What confirms it is in the log behind it."""
        self._stage = ""
        self._leaves = False
        self._gone, self._news = asyncio.Event(), asyncio.Event()

    @property
    def replica(self) -> Replica:
        return self._machine.replica

    async def run(self) -> str:
        """Until the machine ends: why."""
        beating = (self._read, self._hear, self._beat, self._speak, self._bury)
        acts = (self._prepare, self._cut)
        looks = (self._see_done, self._see_resized, self._see_fits, self._tell_ends)
        tasks = [
            *(asyncio.create_task(self._repeat(one, one in beating)) for one in (*beating, *acts, *looks)),
            asyncio.create_task(self._repeat(self._work, news=self._news)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return self._machine.ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def leave(self, reason: str) -> None:
        """Say goodbye while `run` goes on; back once the log says so and all that ran here has ended."""
        self._machine.leave(reason)
        self._leaves = True
        await self._gone.wait()

    async def _repeat(
        self, act: Callable[[], Awaitable[None]], soon: bool = False, news: asyncio.Event | None = None
    ) -> None:
        """Until the machine ends, which knows what it means that Kafka is away. soon: as beats ask for."""
        await again_and_again(act, lambda: self._pause_ms(soon), lambda: self._machine.ended != "", news)

    def _pause_ms(self, soon: bool) -> int:
        longest = self._options.poll_ms
        return min(longest, self._machine.poll_ms) if soon else longest

    # --- reading ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self._look()
        asked_ms = self._clock.monotonic_ms()
        before = self.replica if self._machine.has_read else None
        try:
            found = await self._log.read_to_end()
        except LogCutError as cut:
            await self._restore(cut)
            return
        for one in found:
            self._machine.read(one.offset, one.entry)
            self._look()
            if self._machine.ended:
                return
        if self.replica.base.offset < self._restored:
            self._waiting.for_somebody(OF_ANOTHER_LOG.format(self._restored))
            return
        self._machine.read_to_end(asked_ms)
        if found:
            self._news.set()
        if before is not None:
            entries = (one.entry for one in found)
            self._burials.add(gone_coordinators(before, self.replica, entries, self._machine.me.name))
        self._tell_stage()
        self._memory.see(self.replica.agents.get(self._machine.me.name))

    async def _restore(self, cut: LogCutError) -> None:
        try:
            replica = await self._store.newest()
        except (RetriableError, TimeoutError) as error:
            self._waiting.for_kafka(f"{cut}, and its snapshot can't be read now", str(error) or "no answer")
            return
        if replica is None or not cut.is_bridged_by(replica, self.replica):
            self._waiting.for_somebody(
                f"{cut}, and there is no snapshot that this version can read and that goes on from there: install the version "
                "of kcontrol that the cluster's other agents have"
            )
            return
        self._machine.restore(replica)
        self._restored = replica.offset
        self._log.go_on_from(replica.offset + 1)
        self._waiting.over()
        self._tell(f"goes on from the snapshot at {replica.offset}")
        self._look()

    def _look(self) -> None:
        if self._machine.removed and not self._leaves:
            incarnation = self._memory.new_incarnation(self._machine.me.name)
            if incarnation is not None:
                self._tell("was given up for dead, or left: it ends what it runs and joins again")
                self._machine.begin(incarnation, self._clock.monotonic_ms())

    def _tell_stage(self) -> None:
        me = self._machine.me
        stage = str(self.replica.stage(me.name)) if me.is_known_by(self.replica) else "unknown"
        if stage != self._stage:
            self._stage = stage
            self._tell(f"is {stage}")
        self._waiting.for_its_name(me.name, self._machine.name_is_taken)

    async def _hear(self) -> None:
        self._machine.hear(*await self._beats.read_to_end())
        for one in self._machine.differences():
            self._tell(one.text)

    # --- speaking -----------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        beat = self._machine.beat(self._clock.monotonic_ms())
        if beat is not None:
            async with asyncio.timeout(self._limits.append_ms / 1000):
                await self._beats.append(beat)
            self._machine.beat_sent(self._clock.monotonic_ms())
            await self._say_troubles()

    async def _say_troubles(self) -> None:
        """Once they have changed, and again and again: whoever begins to look reads no more than lately was said."""
        lasting = self._processes.lasting(self._options.short_life_s)
        found = AgentTroubles(*self._machine.me.who, self._restarts.told(self._placed_here(), lasting))
        lately = self._clock.monotonic_ms() - self._said_ms < self._options.say_again_ms
        if (found == self._troubles and lately) or not (found.troubles or self._troubles.troubles):
            return
        async with asyncio.timeout(self._limits.append_ms / 1000):
            await self._beats.say(found)
        self._troubles, self._said_ms = found, self._clock.monotonic_ms()

    async def _speak(self) -> None:
        entry = self._machine.entry(self._clock.monotonic_ms())
        if entry is None:
            return
        if not self._store.may_be_said(entry, self._machine.saved):
            self._machine.withheld()
            return
        asked_ms = self._clock.monotonic_ms()
        try:
            async with asyncio.timeout(self._limits.append_ms / 1000):
                await self._log.append(entry)
        except ValueError as error:  # Names may be as long as the entry from which they are.
            _log.warning("%s can't be said: %s", type(entry).__name__, error)
            self._machine.withheld()
            return
        except (RetriableError, TimeoutError):
            now_ms = self._clock.monotonic_ms()
            reads = self._machine.up_to_date(now_ms) and now_ms - asked_ms < 2 * self._limits.append_ms
            self._machine.not_appended(now_ms, reads)
            raise
        self._machine.appended()

    async def _prepare(self) -> None:
        """See to what has to be stored or read before a snapshot is proposed or confirmed, however long that takes; other
        things are said meanwhile."""
        entry = await self._store.prepare()
        if entry is not None:
            self._machine.prepared(entry)

    # --- looking after pipelines, each look at its own pace -----------------------------------------------

    async def _see_done(self) -> None:
        """Whether something is done for good."""
        for ward in await self._warden.done(self._machine.wards(), self.replica.founded_ms):
            self._machine.task_done(ward)

    async def _see_resized(self) -> None:
        """Whether pipelines have as many nodes as they are to have."""
        for one, nodes in await self._resizes.seen(self._machine.resizings()):
            self._machine.resized(one, nodes)

    async def _see_fits(self) -> None:
        """Whether pipelines can have as many nodes as the cluster has room for."""
        for one, nodes, anew in await self._fits.seen(self._machine.fittings(self._clock.monotonic_ms())):
            self._machine.fitted(one, nodes, anew)

    async def _tell_ends(self) -> None:
        """That pipelines are stopped whose jobs have ended."""
        await self._ends.tell(ended_jobs(self.replica, self._machine.me))

    async def _bury(self) -> None:
        """Have the group of coordinators without those of hosts that are gone."""
        await self._burials.bury(self.replica.agents, self._machine.may_start(self._clock.monotonic_ms()))

    async def _cut(self) -> None:
        """One member at a time deletes what a confirmed snapshot makes needless."""
        value = self.replica
        if value.members[:1] == (self._machine.me.name,) and self._machine.may_start(
            self._clock.monotonic_ms()
        ):
            await self._store.cut(value.base)

    # --- running ------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for ended in self._processes.tend(now_ms):
            self._see_end(ended, now_ms)
        if self._machine.has_read:
            self._note_ends()
        running = [one for one in self._processes.running() if one.unit != COORDINATOR]
        strange = self._end_those_of_another_log(now_ms)
        running = [one for one in running if one not in strange]
        found = self._machine.work(running, now_ms)
        self._processes.mark_moved(found.handed_over, now_ms)
        for one in found.stop:
            self._processes.stop(one, now_ms)
        for one, unit, place in found.given:
            self._give(one, unit, place.generation)
        if found.start:
            self._command.keep({job.package for job in self.replica.active()})
        for unit, place in found.start:
            self._start(unit, place.generation, now_ms)
        self._keep_coordinator(now_ms)
        if self._leaves and self._machine.removed and not self._processes.running():
            self._gone.set()

    def _give(self, one: RunningUnit, unit: Unit, generation: int) -> None:
        """The process of a standby goes on as this node, as soon as one could be started."""
        if not self._processes.is_free(unit):
            return
        try:
            pid = self._processes.give(one, unit, AgentPlacement(self.replica.founded_ms, generation))
        except OSError as error:
            _log.warning("%s can't be given its number now: %s", "/".join(map(str, unit)), error)
            return
        self._restarts.handed_over(unit)
        self._tell(f"has who stood by run {'/'.join(map(str, unit))} of generation {generation} (pid {pid})")

    def _end_those_of_another_log(self, now_ms: int) -> list[RunningUnit]:
        """Their generations are offsets of a log that was deleted: one that is equal to that of a place here is so by
        chance."""
        found = self._processes.of_another_log(self.replica.founded_ms)
        strange = [one for one in found if one.unit != COORDINATOR]
        if self._machine.has_read:
            for one in strange:
                self._processes.stop(one, now_ms)
        return strange

    def _start(self, unit: Unit, generation: int, now_ms: int) -> None:
        """Once no older process of the unit is left here, which has its working directory."""
        if why := self._processes.stuck(unit, now_ms):
            self._tell(f"can't run {'/'.join(map(str, unit))}: {why}")
            self._machine.unit_failed(unit, generation, why, Hope.ELSEWHERE)
        if not self._processes.is_free(unit) or not self._restarts.may_start(unit, generation, now_ms):
            return
        placement = AgentPlacement(self.replica.founded_ms, generation)
        stands_by = self.replica.jobs[unit[0]].stands_by(unit[1])
        if stands_by and not self._spares.may_start(unit, generation, now_ms):
            return
        try:
            command = self._command(self.replica.jobs[unit[0]], unit, placement)
            if command is None:
                return
            if stands_by:
                number_file = self._processes.number_file(unit, generation)
                command = (*command, "--number-from", str(number_file))
            pid = self._processes.start(unit, generation, command, placement.founded_ms)
        except RetriableError as error:
            self._restarts.not_known(unit, generation, str(error), now_ms)
            return
        except (ConfigurationError, OSError) as error:
            self._not_started(unit, generation, error, now_ms)
            return
        self._tell(f"runs {'/'.join(map(str, unit))} of generation {generation} (pid {pid})")

    def _not_started(self, unit: Unit, generation: int, error: Exception, now_ms: int) -> None:
        """As if it had ended at once. What the host lacks (memory, room on a disk, a right) may be there in a moment, and is
        the failure of this unit alone: all others go on."""
        why = str(error) if isinstance(error, ConfigurationError) else f"it can't be started here: {error}"
        self._restarts.not_started(unit, generation, now_ms)
        if isinstance(error, OSError):
            self._tell(f"can't start {'/'.join(map(str, unit))}: {error}")
        self._machine.unit_failed(unit, generation, why)

    def _see_end(self, ended: EndedProcess, now_ms: int) -> None:
        pause_ms = self._restarts.ended(ended, now_ms)
        later = ended.unit == COORDINATOR or pause_ms > self._options.restart_ms
        after = f" (another one may start after {pause_ms / 1000:g} s)" if later else ""
        self._tell(f"sees {'/'.join(map(str, ended.unit))} end {ended.with_code}{after}: {ended.said}")
        self._ended.append(ended)

    def _note_ends(self) -> None:
        again = [one for one in self._ended if not self._note(one)]
        for one in self._ended:
            if one not in again:
                self._processes.forget(one)
        self._ended = again

    def _note(self, ended: EndedProcess) -> bool:
        """It is started again if it is still placed here, unless it said that nobody is to do that; what fails here is
        reported. A coordinator is started again in any case: there may be no better host. False: to be noted again."""
        if not may_be_of(ended.founded_ms, self.replica.founded_ms):
            return True
        unit, generation, why = ended.unit, ended.generation, f"ended {ended.with_code}: {ended.said}"
        match verdict_of(ended.code):
            case ExitVerdict.ASKED | ExitVerdict.REPLACED:
                pass
            case ExitVerdict.USELESS | ExitVerdict.LEFT_OUT if unit == COORDINATOR:
                # It is of no job that could fail, and what is wrong for it here may be right elsewhere.
                self._machine.unit_failed(unit, generation, why, Hope.ELSEWHERE)
            case ExitVerdict.LEFT_OUT:
                return self._memory.leave_out(self._machine.unit_left_out(unit, generation))
            case ExitVerdict.USELESS:
                self._machine.unit_failed(unit, generation, why, Hope.NOWHERE)
            case ExitVerdict.USELESS_HERE:
                self._machine.unit_failed(unit, generation, why, Hope.ELSEWHERE)
            case ExitVerdict.FAILED if ended.lived_s > self._options.short_life_s:
                self._machine.unit_lasted(unit, generation)
            case ExitVerdict.FAILED if says_nothing_of_the_host(ended.code):
                pass
            case ExitVerdict.FAILED:
                self._machine.unit_failed(unit, generation, why)
        return True

    def _keep_coordinator(self, now_ms: int) -> None:
        """One where it is placed, none elsewhere, by the same rules as units."""
        me, running = self._machine.me, [one for one in self._processes.running() if one.unit == COORDINATOR]
        if not self._machine.has_read:
            return
        placed = [one for one in self.replica.coordinators if one.agent == me.name]
        known = me.is_known_by(self.replica) or me.was_known_by(self.replica)
        if not placed or not known:
            for one in running:
                self._processes.stop(one, now_ms)
        elif self._options.coordinator and not running and self._machine.may_start(now_ms):
            self._start_coordinator(placed[0], now_ms)

    def _start_coordinator(self, place: Place, now_ms: int) -> None:
        generation = place.generation
        if not self._restarts.may_start(COORDINATOR, generation, now_ms):
            return
        is_one_more = is_spare(place, self.replica.coordinators)
        if is_one_more and not self._spares.may_start(COORDINATOR, generation, now_ms):
            return
        try:
            self._processes.start(COORDINATOR, generation, self._options.coordinator)
        except OSError as error:
            self._not_started(COORDINATOR, generation, error, now_ms)

    def _placed_here(self) -> dict[Unit, Place]:
        """A coordinator among the rest."""
        me = self._machine.me
        keeps = [(COORDINATOR, one) for one in self.replica.coordinators if one.agent == me.name]
        return {**wanted(self.replica, me), **dict(keeps)}
