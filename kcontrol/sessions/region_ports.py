"""What a controller of a region needs, each as small as that need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kcontrol.core.regions.log_view import RegionLogged
from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.pods import PodsSaid
from kcontrol.core.regions.records import (
    CutPipeline,
    RegionCut,
    RegionDefinition,
    RegionRecord,
    RegionRequest,
    RegionRequestKind,
    RegionRollback,
)


class RegionLog(Protocol):
    """The log of one region."""

    async def read(self) -> list[RegionLogged]:
        """What was committed since the last read, as far as it is shown yet, without taking it. Raises RetriableError,
        TopicError, AccessError, DamagedRecordError."""
        ...

    async def take(self) -> list[RegionLogged]:
        """Fence whoever writes it, and read on to its end. Raises what `read` does, and FencedError."""
        ...

    async def write(self, records: Sequence[RegionRecord], forget: Sequence[str] = ()) -> None:
        """All of them in one transaction, with tombstones, behind what was read. forget: keys.

        Raises FencedError: somebody newer has taken the log. RetriableError: nothing was committed. CommitUnknownError: nobody
        knows. After each of them it has to be read, or taken, again. TopicError, AccessError.
        """
        ...


class AskedRegions(Protocol):
    """What people want of regions."""

    @property
    def definitions(self) -> Mapping[str, RegionDefinition]:
        """By region, as far as was read."""
        ...

    def requests(self, region: str) -> Mapping[RegionRequestKind, RegionRequest]:
        """The newest of each kind."""
        ...

    def said(self, region: str) -> Mapping[str, ParticipantSaid]:
        """By participant, the newest word of its newest life."""
        ...

    def pods(self, region: str) -> PodsSaid | None:
        """The newest word of its pipelines' pods, however old; None: nobody has ever said any."""
        ...

    async def look(self) -> None:
        """Read on. Raises RetriableError, TopicError, AccessError."""
        ...


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """lives: by member, its newest life. healthy: all are at work; None: not all have been heard yet. why: what is wrong.
    starts: the pipelines at which a drain begins; (): not all are there."""

    lives: Mapping[str, int] = field(default_factory=dict)
    healthy: bool | None = None
    why: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


class RegionMembers(Protocol):
    """The pipelines of a region. All but `let_go` raise RetriableError."""

    async def look(self, members: Sequence[str]) -> MembersSeen:
        """How they are."""
        ...

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        """Take the drain of this number on, which is begun if it is not under way; once all have come to a cut that the logs
        bear out, that. stays: nobody goes on before `release`."""
        ...

    async def hold(self, number: int) -> Mapping[str, int]:
        """See that all stay where they are; those that do, and the steps at which they stand."""
        ...

    async def release(self, number: int) -> frozenset[str]:
        """See that nobody is held by the region; those that nobody holds."""
        ...

    async def refuses(self, cut: RegionCut, request: RegionRequest) -> str | None:
        """Whether all can be taken back to a cut, looked at before anything is done: '' if they can, why not, or None: it is
        still being looked at. To be asked again until it is told."""
        ...

    async def take_back(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        """Take the rollback on, which is begun if it is not under way; those that are back so far. Nobody is reset twice for
        one `request_id`, whoever asks, and whenever."""
        ...

    async def give_up(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        """End the rollback under way: once it returns, nobody more is reset by it. Those that are back, by their own logs."""
        ...

    @property
    def waits_for(self) -> tuple[str, ...]:
        """For people: what the drain, the release or the rollback waits for."""
        ...

    def let_go(self) -> None:
        """Forget what was done: somebody else is in charge, and nothing is said to pipelines any more."""
        ...
