"""Several people define regions at once, as `kcontrol region apply` does, with requests that are on their way for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from kcontrol.apps.regions.defining import define
from kcontrol.core.regions.definitions import shared_pipelines
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionDefinition
from kcontrol.errors import ConfigurationError
from kcontrol.requests.record import NotNowError
from tests.simulation.invariants import require
from tests.simulation.sessions.loop import SeededLoop

STANDS = "the newest record of a region is a definition that its author was told stands"
NOT_UNSEEN = "a definition that its author was told stands is replaced only by somebody who has seen it"
ALONE = "of two regions with a pipeline in common one has an author who was told so"
_WITHIN_S = 60.0
_WANTED = (("r", ("p",)), ("r", ("q",)), ("r", ("q", "u")), ("s", ("p", "t")), ("s", ("t",)))
"""Regions and pipelines; both may want `p`."""


@dataclass
class _Topic:
    records: list[tuple[str, RegionDefinition | None]] = field(default_factory=list)


class _View:
    """One command's view of the topic of regions."""

    def __init__(self, topic: _Topic, random: Random) -> None:
        self._topic, self._random, self._position = topic, random, 0
        self.definitions: dict[str, RegionDefinition] = {}
        self._defined: list[tuple[str, RegionDefinition | None]] = []

    def take_defined(self) -> list[tuple[str, RegionDefinition | None]]:
        found, self._defined = self._defined, []
        return found

    async def look(self) -> None:
        await self._wire()
        found = self._topic.records[self._position :]
        self._position += len(found)
        self._defined += found
        for name, one in found:
            self.definitions.pop(name, None)
            if one is not None:
                self.definitions[name] = one
        await self._wire()

    async def ask(self, record: RegionDefinition) -> int:
        return await self._append(record.region, record)

    async def forget(self, region: str) -> None:
        await self._append(region, None)

    async def _append(self, region: str, record: RegionDefinition | None) -> int:
        await self._wire()
        self._topic.records.append((region, record))
        await self._wire()
        return len(self._topic.records) - 1

    async def _wire(self) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.001, 0.01)))


class DefinitionSchedule:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self._random, self._topic = Random(seed), _Topic()
        self._loop = SeededLoop(self._random, 0.3)
        self._told: list[str] = []
        """The `keep_cuts` of the definitions whose authors were told that they stand: each has another one."""
        self._shared = set[str]()
        """Those of which it was told that they stand, and have a pipeline of another region."""
        self._left = 0

    def run(self) -> None:
        """Raises Violation."""
        try:
            for number in range(1, self._random.randint(2, 4) + 1):
                self._left += 1
                self._loop.create_task(self._define_some(number))
            self._loop.run_while(lambda: self._left > 0, _WITHIN_S)
        finally:
            self._loop.end()
        self._check()

    async def _define_some(self, author: int) -> None:
        for at in range(self._random.randint(1, 2)):
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.02)))
            region, pipelines = self._random.choice(_WANTED)
            mark = 10 * author + at
            settings = RegionSettings(region, pipelines, keep_cuts=mark)
            try:
                if await define(_View(self._topic, self._random), settings, f"author {author}", 0):
                    self._told.append(str(mark))
            except NotNowError:
                continue
            except ConfigurationError as error:
                if "is defined, but" in str(error):
                    self._shared.add(str(mark))
        self._left -= 1

    def _check(self) -> None:
        require(self._left == 0, STANDS, "somebody does not come to an end")
        newest = dict(self._topic.records)
        made = {one.request_id: one for _, one in self._topic.records if one is not None}
        for one in newest.values():
            require(one is None or self._is_told(one), STANDS, one)
        for one in made.values():
            last = newest[one.region]
            if self._is_told(one) and last is not None:
                seen = _marks_up_to(last, made)
                require(one.settings.keep_cuts in seen, NOT_UNSEEN, (one, last))
        left = [one.settings for one in newest.values() if one is not None]
        told = [settings for settings in left if str(settings.keep_cuts) not in self._shared]
        for settings in told:
            require(not shared_pipelines(settings, told), ALONE, left)

    def _is_told(self, one: RegionDefinition) -> bool:
        return str(one.settings.keep_cuts) in {*self._told, *self._shared}


def _marks_up_to(last: RegionDefinition, made: Mapping[str, RegionDefinition]) -> set[int]:
    """What the author of this one had seen, and whoever had made that, back to the first."""
    marks = {last.settings.keep_cuts}
    while last.follows:
        last = made[last.follows]
        marks.add(last.settings.keep_cuts)
    return marks
