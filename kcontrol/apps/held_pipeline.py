"""A pipeline that is held for a while by whoever drains several: orders, renewed as leases, and what its coordinator says of
them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from uuid import uuid4

from kcontrol.adapters.kafka.read.output_ends import OutputEnds
from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.core.model import Hold, HoldPhase, PipelineSpec, ReadLimit, Status, StepBoundary
from kcontrol.core.regions.cut import PipelineCut, standing
from kcontrol.errors import NotFoundError, RetriableError
from kcontrol.requests.record import NotNowError

LEASE_MS = 15_000
_RENEWALS = 4
"""In the time of a lease."""
_REMEMBERED = 100
"""A coordinator's word is about one of so many of the newest."""
_ASKED_AGAIN_S = 1.0


@dataclass
class HeldPipeline:
    """One pipeline, as its logs show it. holder: who holds it, for people. number: of the drain.
    resumes: a hold of this holder that another process has written is taken on."""

    spec: PipelineSpec
    logs: PipelineLogs
    ends: OutputEnds
    holder: str
    lease_ms: int = LEASE_MS
    number: int = 0
    resumes: bool = False
    written: dict[str, tuple[ReadLimit, ...]] = field(default_factory=dict)
    """By request, the limits of the newest holds that were written here."""
    limits: tuple[ReadLimit, ...] | None = None
    """Of the hold that is renewed; None: none is."""
    renewed_s: float = 0.0
    released_s: float | None = None
    """When its release was asked for last; None: not since it was held here."""
    boundaries: list[StepBoundary] = field(default_factory=list)
    """Of the last step when it began, and of all after it."""
    unasked: str = ""
    """Why it is not known where its outputs end, if it was asked last in vain."""

    async def begin(self) -> None:
        """Raises NotFoundError, NotNowError."""
        await self.logs.read()
        last = self.logs.committed.last
        if last is None:
            raise NotFoundError(f"pipeline {self.spec.pipeline!r} has no committed step yet")
        self.boundaries = [last]
        self.refuse_held()

    def refuse_held(self) -> None:
        """By what was read. Raises NotNowError: somebody else holds it."""
        newest, said = self.logs.view.hold(), self.logs.view.status()
        if newest is None or newest[1].released or is_given_up(newest[1], said):
            return
        hold = newest[1]
        if self.resumes and hold.holder == self.holder:
            return
        raise NotNowError(
            f"pipeline {self.spec.pipeline!r} is held by {hold.holder}: ask again once it is released, which is "
            f"{hold.timeout_ms / 1000:g} s after that has died. Nobody was held"
        )

    async def hold(self, limits: tuple[ReadLimit, ...]) -> None:
        """From now on, and renewed from time to time."""
        if self.limits == limits and time.monotonic() < self.renewed_s + self.lease_ms / 1000 / _RENEWALS:
            return
        self.limits, self.renewed_s, self.released_s = limits, time.monotonic(), None
        await self._write(limits, released=False)

    async def release(self) -> None:
        """It goes on as if it had never been held."""
        if self.limits is not None:
            self.limits = None
            await self._write((), released=True)

    async def release_any(self) -> bool:
        """What was read shows a hold of this holder: release it, whoever has written it. Whether its coordinator says that
        nobody holds it. What was asked for is asked for again only after a while; the first time at once."""
        newest, said = self.logs.view.hold(), self.logs.view.status()
        self.limits = None
        if newest is None or is_given_up(newest[1], said):
            return True
        hold = newest[1]
        if hold.released:
            return said is not None and said.hold is not None and said.hold.request_id == hold.request_id
        now_s = time.monotonic()
        if hold.holder == self.holder and (
            self.released_s is None or now_s >= self.released_s + _ASKED_AGAIN_S
        ):
            self.released_s = now_s
            await self._write((), released=True)
        return False

    async def _write(self, limits: tuple[ReadLimit, ...], *, released: bool) -> None:
        request_id = uuid4().hex
        self.written[request_id] = limits
        for old in list(self.written)[:-_REMEMBERED]:
            del self.written[old]
        order = Hold(
            self.spec.pipeline, self.holder, self.number, limits, released, self.lease_ms, request_id
        )
        await self.logs.own_control.append([order])

    async def said(self) -> tuple[HoldPhase, int] | None:
        """How far it is with what is held here; None: it has not taken note of that yet. Raises NotNowError: it is held by
        somebody else now, or was not renewed in time."""
        await self.logs.read_control()
        newest, said = self.logs.view.hold(), self.logs.view.status()
        if newest is not None and self.written and newest[1].request_id not in self.written:
            raise NotNowError(
                f"pipeline {self.spec.pipeline!r} is held by {newest[1].holder} since: ask again"
            )
        if said is None or said.hold is None or self.written.get(said.hold.request_id) != self.limits:
            return None
        if said.hold.phase is HoldPhase.GIVEN_UP:
            raise NotNowError(
                f"pipeline {self.spec.pipeline!r} was held for {self.lease_ms / 1000:g} s without a word from here, and goes "
                "on: ask again"
            )
        return said.hold.phase, said.hold.step

    async def stand(self, step: int) -> PipelineCut | None:
        """Where it is held; None if it is there no more, or brokers don't say where its outputs end (`unasked`). What they say
        may be old: its log of steps tells up to where it has written at least."""
        try:
            asked = await self.ends.ends({each.topic: each.partitions for each in self.spec.outputs})
        except RetriableError as error:
            self.unasked = str(error)
            return None
        self.unasked = ""
        await self.read_on()
        last = self.boundaries[-1]
        return standing(last, asked, self.logs.written) if last.step == step else None

    async def read_on(self) -> None:
        """The log of steps, to its end."""
        read = (each.record for each in await self.logs.read_steps_on())
        self.boundaries += [each for each in read if isinstance(each, StepBoundary)]


def is_given_up(hold: Hold, said: Status | None) -> bool:
    """Whether the coordinator no longer goes by it. One that it has not noted yet may have been renewed just now."""
    told = None if said is None else said.hold
    return told is not None and told.request_id == hold.request_id and told.phase is HoldPhase.GIVEN_UP
