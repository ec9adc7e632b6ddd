"""How long an agent waits before it starts again what has ended, or could not be started.

A node that fails soon after its start is reported, and runs elsewhere. What says nothing of the host is not reported, as
another host would do no better: that Kafka is away, that another process has the node's place, that it was asked to end. Nor
does anything else bound how often a coordinator is started where there is no better host. So these are started again after
longer and longer pauses; and what goes on so is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kcontrol.apps.agent.processes import EndedProcess
from kcontrol.apps.exit_codes import ExitVerdict, verdict_of
from kcontrol.backoff import Backoff
from kcontrol.core.cluster.model import COORDINATOR, Place, Unit
from kcontrol.errors import ClusterError

TOLD_AFTER = 3
"""So many starts in vain, one after another."""
_TOLD_UNITS = 20
_TOLD_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class _LastEnd:
    """The last of a unit. at_ms: when it was seen. generation: of the placement. times: so many in vain, one after another, in
    this placement. why: '' if that is reported otherwise. pause_ms: before the next start."""

    at_ms: int
    generation: int
    times: int
    why: str
    pause_ms: int


class Restarts:
    """Of one agent. backoff: the pauses. short_life_s: who ran longer was not started in vain."""

    def __init__(self, backoff: Backoff, short_life_s: float) -> None:
        self._backoff, self._short_life_s = backoff, short_life_s
        self._all: dict[Unit, _LastEnd] = {}

    def may_start(self, unit: Unit, generation: int, now_ms: int) -> bool:
        """Whether the pause is over. Another placement waits for the first one only."""
        last = self._all.get(unit)
        if last is None:
            return True
        pause_ms = last.pause_ms if last.generation == generation else self._backoff.first_ms
        return now_ms - last.at_ms >= pause_ms

    def ended(self, one: EndedProcess, now_ms: int) -> int:
        """The pause before the next start. One of another placement begins with the first, and so does one that has run for
        long, and a node whose end counts as a failure on this host."""
        in_vain = one.lived_s <= self._short_life_s and _is_in_vain(one)
        why = f"ended {one.with_code}: {one.said}" if says_nothing_of_the_host(one.code) else ""
        return self._note(one.unit, one.generation, in_vain, why, now_ms)

    def not_started(self, unit: Unit, generation: int, now_ms: int) -> None:
        """It could not even be, which is reported."""
        self._note(unit, generation, unit == COORDINATOR, "", now_ms)

    def not_known(self, unit: Unit, generation: int, why: str, now_ms: int) -> None:
        """What is to be run could not be told, of which another host would know no more."""
        self._note(unit, generation, True, why, now_ms)

    def handed_over(self, unit: Unit) -> None:
        """A process that is there already is this unit from now on."""
        self._all.pop(unit, None)

    def told(self, placed: Mapping[Unit, Place], lasting: Collection[Unit]) -> tuple[str, ...]:
        """What of these places goes on in vain, in sentences. lasting: what has run for long again."""
        found = [
            (unit, last)
            for unit, last in sorted(self._all.items())
            if last.times >= TOLD_AFTER and last.why and unit not in lasting
            if unit in placed and placed[unit].generation == last.generation
        ]
        return tuple(_sentence(unit, last) for unit, last in found[:_TOLD_UNITS])

    def _note(self, unit: Unit, generation: int, in_vain: bool, why: str, now_ms: int) -> int:
        last, times = self._all.get(unit), 0
        if in_vain:
            times = 1 if last is None or last.generation != generation else last.times + 1
        pause_ms = self._backoff.wait_ms(max(1, times))
        self._all[unit] = _LastEnd(now_ms, generation, times, why, pause_ms)
        return pause_ms


def says_nothing_of_the_host(code: int | None) -> bool:
    """Kafka is away, from all hosts as far as is known; another process has its place; it was asked to end. That
    a topic is wrong says something: of the job."""
    return verdict_of(code) in (ExitVerdict.ASKED, ExitVerdict.REPLACED) or code == ClusterError.exit_code


def _is_in_vain(one: EndedProcess) -> bool:
    if one.unit == COORDINATOR:
        return verdict_of(one.code) not in (ExitVerdict.ASKED, ExitVerdict.REPLACED)
    return says_nothing_of_the_host(one.code)


def _sentence(unit: Unit, last: _LastEnd) -> str:
    name = "coordinator" if unit == COORDINATOR else "/".join(map(str, unit))[:_TOLD_CHARACTERS]
    return (
        f"{name} was started {last.times} times in vain, and will be again after {last.pause_ms / 1000:g} s: "
        f"{last.why[:_TOLD_CHARACTERS]}"
    )
