"""The log of a simulated region behind a network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kcontrol.core.regions.log_view import RegionLogged
from kcontrol.core.regions.records import RegionRecord
from kcontrol.errors import CommitUnknownError, RetriableError
from tests.fakes.memory_regions import MemoryRegionLog

if TYPE_CHECKING:
    from tests.simulation.regions.controllers import RegionWorld

_T = TypeVar("_T")


class WiredLog:
    """The RegionLog port: requests are lost, or their answers, and those first that `losing` says."""

    def __init__(self, world: RegionWorld) -> None:
        self._world, self._log = world, MemoryRegionLog(world.topic)

    async def read(self) -> list[RegionLogged]:
        return await self._call(self._log.read)

    async def take(self) -> list[RegionLogged]:
        return await self._call(self._log.take)

    async def write(self, records: Sequence[RegionRecord], forget: Sequence[str] = ()) -> None:
        try:
            if self._world.losing.loses(self._world.view().newest, records):
                await self._lost(records, forget)
            await self._call(lambda: self._log.write(records, forget))
        except RetriableError as error:
            raise CommitUnknownError(str(error)) from error

    async def _lost(self, records: Sequence[RegionRecord], forget: Sequence[str]) -> None:
        """The request, or the answer."""
        before = self._log.position
        if self._world.random.random() < 0.5:
            await self._log.write(records, forget)
        self._log.know_only(before)
        raise RetriableError("the connection was reset")

    async def _call(self, do: Callable[[], Awaitable[_T]]) -> _T:
        """Whose answer is lost does not know what it said."""
        before = self._log.position
        try:
            return await self._world.call(do)
        except RetriableError:
            self._log.know_only(before)
            raise
