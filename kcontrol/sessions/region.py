"""A controller of one region: stands by until nobody is in charge, takes the region's log, and goes on with what it says.

What happened is written before anything follows from it, in a transaction that a newer controller's fences; so of several
that think they are in charge, one is. What is said to pipelines can't be fenced: holds are leases (decision 125), a controller
that has not proved for a while that it is in charge proves it before it speaks, and a cut is held against the logs before
it counts. So a controller that hung and wakes up can cost a drain, and never make a cut that is none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kcontrol.core.regions.definitions import shared_pipelines
from kcontrol.core.regions.history import folded
from kcontrol.core.regions.leading import (
    NOT_CHECKED,
    LedStep,
    RegionSeen,
    RollbackChecked,
    began,
    is_to_be_checked,
    next_change,
    refused_abandon,
    refused_cut,
    taken_over,
)
from kcontrol.core.regions.log_view import RegionLogged, RegionLogView, RegionTombstone, read_on
from kcontrol.core.regions.model import Alarm, MemberPart, Region, RegionState
from kcontrol.core.regions.participants import ParticipantsHeard
from kcontrol.core.regions.pods import PodsHeard
from kcontrol.core.regions.records import (
    CutPipeline,
    RegionBeat,
    RegionCut,
    RegionDefinition,
    RegionRecord,
    RegionRequest,
    RegionRequestKind,
)
from kcontrol.core.regions.value import RegionValue, WrittenBy, change_of
from kcontrol.errors import CommitUnknownError, FencedError, RetriableError
from kcontrol.sessions.pausing import pause
from kcontrol.sessions.ports import Clock
from kcontrol.sessions.region_ports import AskedRegions, MembersSeen, RegionLog, RegionMembers
from kcontrol.sessions.retrying import AWAY

_log = logging.getLogger("kcontrol.regions")

_MOST_CHANGES = 10_000
"""In one look: more would be a circle."""


@dataclass(frozen=True, slots=True)
class RegionTimes:
    """silence_ms: nobody is in charge of a region whose log has not grown for so long. beat_ms: whoever is writes at least
    so often. look_ms: how often members are looked at; busy_ms: while they are drained, or brought into line.
    keep_changes: so many of the newest stay in the log. pods_lease_ms: what was said of pods counts for so long."""

    silence_ms: int = 10_000
    beat_ms: int = 3_000
    look_ms: int = 500
    busy_ms: int = 50
    keep_changes: int = 1_000
    pods_lease_ms: int = 30_000


class _PushedAsideError(Exception):
    """Somebody else is in charge."""


class RegionSession:
    """Of one region, in one process; it never ends by itself but for `stop`."""

    def __init__(
        self,
        region: str,
        controller: str,
        log: RegionLog,
        asked: AskedRegions,
        members: RegionMembers,
        clock: Clock,
        times: RegionTimes | None = None,
        hint: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        """controller: a name that no other session has, in any process. hint: sends a datagram to each address."""
        self._region, self._controller = region, controller
        self._log, self._asked, self._members = log, asked, members
        self._clock, self._times, self._hint = clock, times or RegionTimes(), hint
        self._view = RegionLogView()
        self._stopping = asyncio.Event()
        self._proved_ms = 0
        self._alarm: tuple[int, Alarm | None, int] = (-1, None, 0)
        """The one that the log has set: its number, what it is for, and when it goes off, by the monotonic clock."""
        self._cut: tuple[int, tuple[CutPipeline, ...]] | None = None
        self._in_line: frozenset[str] = frozenset()
        self._back: tuple[str, frozenset[str]] = ("", frozenset())
        """Of which rollback, and who."""
        self._checked = NOT_CHECKED
        self._led_from = 0
        self._heard, self._pods = ParticipantsHeard(), PodsHeard()
        self._waits: tuple[str, ...] = ()
        self._starts: tuple[str, ...] = ()

    def stop(self) -> None:
        """End as soon as may be. Pipelines go on, unless they are held until somebody resumes them."""
        self._stopping.set()

    async def run(self) -> None:
        """Raises TopicError, AccessError, DamagedRecordError."""
        tries = AWAY.begin()
        while not self._stopping.is_set():
            try:
                if await self._stand_by():
                    await self._lead()
            except (_PushedAsideError, FencedError) as error:
                _log.warning("region %s: another controller is in charge: %s", self._region, error)
            except (RetriableError, CommitUnknownError) as error:
                _log.warning("region %s: %s; trying again", self._region, error)
                await pause(tries.failed(), self._stopping)
                continue
            finally:
                self._members.let_go()
            tries.succeeded()

    # --- standing by ----------------------------------------------------------------------------------------

    async def _stand_by(self) -> bool:
        """Until nobody is in charge; False: stopped."""
        heard: object = None
        heard_ms = self._clock.monotonic_ms()
        while not self._stopping.is_set():
            self._see(await self._log.read())
            await self._asked.look()
            now_ms, said = self._clock.monotonic_ms(), (self._view.newest, self._view.beat)
            if said != heard:
                heard, heard_ms = said, now_ms
            is_free = (
                self._view.owner in ("", self._controller)
                or self._view.has_ended
                or now_ms - heard_ms >= self._times.silence_ms
            )
            if is_free and self._definition is not None:
                return True
            await pause(self._times.look_ms, self._stopping)
        return False

    @property
    def _definition(self) -> RegionDefinition | None:
        return self._asked.definitions.get(self._region)

    # --- in charge ------------------------------------------------------------------------------------------

    async def _lead(self) -> None:
        """Until it is stopped, or the region is deleted. Raises _PushedAsideError, FencedError."""
        self._alarm, self._cut, self._in_line, self._waits = (-1, None, 0), None, frozenset(), ()
        self._back, self._checked, self._pods = ("", frozenset()), NOT_CHECKED, PodsHeard()
        self._see(await self._log.take())
        self._led_from = 1 + (0 if self._view.newest is None else self._view.newest.number)
        definition, value = self._definition, self._view.value
        assert definition is not None
        await self._write(began(definition) if value is None else taken_over(value, self._controller))
        _log.info("region %s: in charge, as %s", self._region, self._controller)
        while not self._stopping.is_set():
            await self._asked.look()
            definition = self._definition
            if definition is None:
                break
            try:
                seen = self._with_what_was_said(
                    await self._members.look(self._value.region.settings.pipelines)
                )
                await self._check_rollback(seen)
                await self._go_on(definition, seen)
                await self._carry_out(seen)
            except (RetriableError, FencedError, CommitUnknownError) as error:
                await self._find_out(error)
            await pause(self._pause_ms, self._stopping)
        await self._end()

    async def _go_on(self, definition: RegionDefinition, members: MembersSeen) -> None:
        """All that follows from what was seen, or a beat. Whatever comes after it, this is in charge of."""
        self._set_alarm(self._value)
        changes = list(self._changes(definition, members))
        if changes:
            await self._write(*changes)
        elif self._clock.monotonic_ms() - self._proved_ms >= self._times.beat_ms:
            await self._beat(ended=False)

    def _with_what_was_said(self, pipelines: MembersSeen) -> MembersSeen:
        """By participants of themselves, and of the pipelines' pods."""
        settings, said = self._value.region.settings, self._asked.said(self._region)
        now_ms = self._clock.monotonic_ms()
        self._heard = self._heard.listened(said, now_ms)
        doubts = [
            self._heard.doubts(name, now_ms, settings.participant_lease_ms) for name in settings.participants
        ]
        self._pods = self._pods.listened(self._asked.pods(self._region), now_ms)
        perhaps, away = self._pods.doubts(now_ms, self._times.pods_lease_ms)
        shared = shared_pipelines(settings, (one.settings for one in self._asked.definitions.values()))
        unknown, ill = [one for one, _ in doubts if one], [one for _, one in doubts if one]
        unknown, ill = [*unknown, *perhaps], [*ill, *away, *shared]
        healthy = pipelines.healthy
        if ill or healthy is False:
            healthy = False
        elif unknown:
            healthy = None
        lives = {name: said[name].life for name in settings.participants if name in said}
        why = (*pipelines.why, *ill, *unknown)
        return MembersSeen({**pipelines.lives, **lives}, healthy, why, pipelines.starts)

    async def _check_rollback(self, members: MembersSeen) -> None:
        """All is looked at before anything is done."""
        request = is_to_be_checked(self._value, self._seen(members))
        if request is None:
            return
        if not request.to_cut:
            await self._give_up(request)
            return
        cut = self._view.cuts.get(request.to_cut)
        why: str | None = refused_cut(request.to_cut, cut, self._value.region.settings)
        if cut is not None and not why:
            why = await self._members.refuses(cut, request)
        if why is not None:
            self._checked = RollbackChecked(request.request_id, self._value.definition_id, why)

    async def _give_up(self, request: RegionRequest) -> None:
        """Nobody is taken back any more before it is written who is."""
        rollback = self._value.rollback
        cut = None if rollback is None else self._view.cuts.get(rollback.to_cut)
        if rollback is not None and cut is not None and not refused_abandon(request, rollback):
            self._back = rollback.request_id, await self._members.give_up(cut, rollback)
        self._checked = RollbackChecked(request.request_id, self._value.definition_id)

    def _changes(self, definition: RegionDefinition, members: MembersSeen) -> Iterable[LedStep]:
        value = self._value
        for _ in range(_MOST_CHANGES):
            led = next_change(value, definition, self._seen(members))
            if led is None:
                return
            value = led.value
            yield led
        raise AssertionError(f"region {self._region!r} does not come to rest: {value}")

    def _seen(self, members: MembersSeen) -> RegionSeen:
        timer, _, due_ms = self._alarm
        requests = self._asked.requests(self._region)
        back = requests.get(RegionRequestKind.ROLLBACK)
        return RegionSeen(
            lives=members.lives,
            healthy=members.healthy,
            alarm=timer if self._clock.monotonic_ms() >= due_ms else -1,
            came_to=0 if self._cut is None else self._cut[0],
            in_line=self._in_line,
            requests=requests,
            back=self._back,
            checked=self._checked,
            cut=None if back is None else self._view.cuts.get(back.to_cut),
            led_from=self._led_from,
            said=self._asked.said(self._region),
            why="; ".join(members.why),
        )

    def _set_alarm(self, value: RegionValue) -> None:
        """That of the log: one that was only decided, and whose change could not be written, was never set, and the one before
        it goes off again."""
        region = value.region
        if region.alarm is not None and (region.timer, region.alarm) != self._alarm[:2]:
            due_ms = self._clock.monotonic_ms() + region.settings.alarm_ms(region.alarm)
            self._alarm = region.timer, region.alarm, due_ms

    async def _carry_out(self, members: MembersSeen) -> None:
        """What members are told follows from the region that is in the log."""
        region = self._value.region
        number = region.current_seq_id
        self._waits, self._starts = members.why, members.starts
        if region.state is RegionState.DRAINING:
            self._in_line = frozenset()
            if self._cut is None or self._cut[0] != number:
                made = await self._members.drain(number, stays=region.stands)
                self._cut = None if made is None else (number, made)
                self._waits += self._members.waits_for
            else:
                await self._stay_or_go_on(number, stays=region.stands)
            self._waits += _late(region)
            return
        if region.state is RegionState.PENDING:
            await self._stay_or_go_on(number, stays=region.stands)
            self._waits += _late(region)
            return
        self._cut = None
        if region.state is RegionState.GOING_BACK:
            await self._take_back()
            return
        if region.is_held:
            stand = await self._members.hold(region.last_completed_seq_id)
            self._in_line = frozenset(stand)
            self._waits += _gone_on(self._view.cut, stand)
        else:
            self._in_line = await self._members.release(number)
        if region.state is RegionState.RESETTING:
            self._waits += self._members.waits_for

    async def _stay_or_go_on(self, number: int, *, stays: bool) -> None:
        """Of pipelines that have come to their cut, while participants are late."""
        if stays:
            await self._members.hold(number)
        else:
            await self._members.release(number)

    async def _take_back(self) -> None:
        """Who is started on the way stands until all are back."""
        rollback = self._value.rollback
        assert rollback is not None
        self._in_line, cut = frozenset(), self._view.cuts.get(rollback.to_cut)
        if cut is None:
            self._waits += (
                f"cut {rollback.to_cut} (the log has it no more: kcontrol region rollback {self._region} --abandon)",
            )
            return
        await self._members.hold(cut.number)
        self._back = rollback.request_id, await self._members.take_back(cut, rollback)
        self._waits += self._members.waits_for

    @property
    def _pause_ms(self) -> int:
        region = self._value.region
        if self._cut is not None and not set(region.settings.pipelines) <= region.completions.keys():
            return 0
        is_busy = region.state in (RegionState.DRAINING, RegionState.RESETTING)
        return self._times.busy_ms if is_busy else self._times.look_ms

    async def _end(self) -> None:
        """Of one's own will: nobody need wait."""
        region = self._value.region
        stays = region.is_held or region.state is RegionState.GOING_BACK
        if not stays or self._definition is None:
            await self._members.release(region.current_seq_id)
        await self._beat(ended=True)

    # --- the log --------------------------------------------------------------------------------------------

    @property
    def _value(self) -> RegionValue:
        value = self._view.value
        assert value is not None
        return value

    def _see(self, records: Iterable[RegionLogged]) -> None:
        self._view = read_on(self._view, records)

    async def _write(self, *changes: LedStep) -> None:
        newest, at_ms = self._view.newest, self._clock.now_ms()
        number = 0 if newest is None else newest.number
        records: list[RegionRecord] = []
        completed = 0 if newest is None else newest.last_completed_seq_id
        history = self._view.history
        for led in changes:
            number += 1
            change = change_of(led.value, led.happened, WrittenBy(self._controller, at_ms, number))
            history = folded(history, newest, change)
            newest = replace(change, history=history)
            records.append(newest)
            made = led.value.region.last_completed_seq_id
            if made > completed and self._cut is not None and self._cut[0] == made:
                records.append(RegionCut(self._region, made, at_ms, self._cut[1], completed))
            completed = made
        settings = changes[-1].value.region.settings
        after = read_on(self._view, records)
        forget = after.forgotten(self._times.keep_changes, settings.keep_cuts)
        await self._log.write(records, forget)
        self._view = read_on(after, map(RegionTombstone, forget))
        self._set_alarm(self._value)
        self._proved_ms = self._clock.monotonic_ms()
        for led in changes:
            _log.info("region %s: %s", self._region, _told(led))
        said = self._asked.said(self._region)
        if self._hint is not None:
            self._hint({said[name].word.hint for name in settings.participants if name in said} - {""})

    async def _beat(self, *, ended: bool) -> None:
        at_ms, newest = self._clock.now_ms(), self._view.newest
        number = 0 if newest is None else newest.number
        beat = RegionBeat(self._region, self._controller, number, at_ms, self._waits, ended, self._starts)
        await self._log.write([beat])
        self._see([beat])
        self._proved_ms = self._clock.monotonic_ms()

    async def _find_out(self, error: Exception) -> None:
        """After a fault: whoever is not the newest that the log knows of is not in charge, and asks for nothing."""
        _log.info("region %s: %s", self._region, error)
        self._see(await self._log.read())
        self._refuse_other(error)
        self._see(await self._log.take())
        self._refuse_other(error)

    def _refuse_other(self, error: Exception) -> None:
        if self._view.owner != self._controller:
            raise _PushedAsideError(f"{self._view.owner} ({error})")


def _late(region: Region) -> tuple[str, ...]:
    """Participants that have not done their part of a drain."""
    late = (
        name for name in region.settings.participants if region.completions.get(name) is not MemberPart.SAVED
    )
    return tuple(f"{name} (it has not said that its checkpoint is done)" for name in late)


def _gone_on(cut: RegionCut | None, stand: Mapping[str, int]) -> tuple[str, ...]:
    """Of pipelines that are to stay at a cut: those whose hold was not renewed in time once."""
    pipelines = () if cut is None else cut.pipelines
    return tuple(
        f"{one.pipeline} stands at step {stand[one.pipeline]}, and the cut is at its step {one.step}: nobody had renewed its "
        "hold. Resume the region, and drain it again"
        for one in pipelines
        if stand.get(one.pipeline, one.step) != one.step
    )


def _told(led: LedStep) -> str:
    happened, region = led.happened, led.value.region
    who = f" of {happened.member}" if happened.member else ""
    why = f" ({happened.why})" if happened.why else ""
    return f"{happened.kind}{who}{why}: {region.state}, cut {region.last_completed_seq_id}"
