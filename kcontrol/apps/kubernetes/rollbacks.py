"""Rollbacks that ConsistentRegions ask for: looked at here, beside the passes, and carried out by the regions' controllers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from kcontrol.core.kubernetes.abandons import abandon_in_log, wanted_abandon
from kcontrol.core.kubernetes.regions import abandon_id_of, defined_by, request_id_of
from kcontrol.core.kubernetes.resources import Manifest, meta_of
from kcontrol.core.kubernetes.rollbacks import (
    NOT_NOTED,
    RollbackSaid,
    RollbackStage,
    rollback_before,
    rollback_in_log,
    wanted_rollback,
)
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.records import RegionRequest, RegionRequestKind
from kcontrol.errors import KcontrolError, RetriableError
from kcontrol.requests.region_rollbacks import AbandonOrder, RollbackFacts, RollbackOrder, Rollbacks

_log = logging.getLogger("kcontrol.kubernetes")

_LOOK_S = 120.0
"""To look at all pipelines of a region, and ask; after that it is begun anew."""
_Look = asyncio.Task[RollbackFacts]


class RollbacksAsked:
    """What is looked at now, and nothing that a next life would miss: it looks again.

    A rollback names the newest change of the region that whoever asks has seen, and is a change. So it is carried out once,
    whoever asks for it again, and whatever has been forgotten.
    """

    def __init__(self, roll_back: Rollbacks) -> None:
        self._roll_back = roll_back
        self._looks: dict[str, tuple[RollbackOrder, _Look]] = {}
        """By the resource's uid."""

    async def said(
        self, region: Manifest, view: RegionLogView, newest: RegionRequest | None
    ) -> RollbackSaid | None:
        """What became of the rollback that a region asks for, which is looked at if nothing is known of it; None: none is
        asked for. newest: as `rollback_in_log` has it."""
        uid = meta_of(region).uid
        if not wanted_rollback(region):
            await self._end(uid)
            return None
        known = rollback_in_log(region, view, newest)
        if known is not None:
            await self._end(uid)
            return known
        return await self._looked_at(region, uid)

    async def _looked_at(self, region: Manifest, uid: str) -> RollbackSaid:
        order = _order_of(region)
        if uid in self._looks and self._looks[uid][0] != order:
            await self._end(uid)
        if uid not in self._looks:
            self._looks[uid] = order, asyncio.create_task(self._look(order))
        _, look = self._looks[uid]
        wanted = wanted_rollback(region)
        if not look.done():
            return rollback_before(region) or RollbackSaid(wanted, RollbackStage.CHECKING)
        del self._looks[uid]
        return _came_of(look, wanted)

    async def _look(self, order: RollbackOrder) -> RollbackFacts:
        async with asyncio.timeout(_LOOK_S):
            return await self._roll_back(order)

    async def given_up(
        self, region: Manifest, view: RegionLogView, newest: RegionRequest | None
    ) -> RollbackSaid | None:
        """What became of the wish to give a rollback up, which is asked for if nothing is known of it; None: there is none.
        newest: as `rollback_in_log` has it. Raises RetriableError."""
        wanted = wanted_abandon(region)
        if not wanted:
            return None
        known = abandon_in_log(region, view, newest)
        if known is not None:
            return known
        try:
            await self._roll_back(_abandon_of(region))
        except RetriableError:
            raise
        except KcontrolError as error:
            return RollbackSaid(wanted, RollbackStage.REFUSED, str(error))
        return RollbackSaid(wanted, RollbackStage.ASKED, NOT_NOTED)

    async def forget(self, uids: Collection[str]) -> None:
        """All but these."""
        for uid in [uid for uid in self._looks if uid not in uids]:
            await self._end(uid)

    async def _end(self, uid: str) -> None:
        if uid in self._looks:
            _, look = self._looks.pop(uid)
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)

    async def close(self) -> None:
        await self.forget(())


def _order_of(region: Manifest) -> RollbackOrder:
    wish = region["spec"]["rollbackRequest"]
    return RollbackOrder(
        region=meta_of(region).name,
        to_cut=wish["toCut"],
        why=wish.get("why", ""),
        by=defined_by(region),
        leave_behind=tuple(wish.get("leaveBehind", ())),
        as_of=wish["asOf"],
        request_id=request_id_of(region, RegionRequestKind.ROLLBACK, wish["id"]),
    )


def _abandon_of(region: Manifest) -> AbandonOrder:
    wish = region["spec"]["abandonRequest"]
    return AbandonOrder(
        region=meta_of(region).name,
        to_cut=wish["toCut"],
        why=wish.get("why", ""),
        by=defined_by(region),
        as_of=wish["asOf"],
        request_id=abandon_id_of(region, wish["id"]),
    )


def _came_of(look: _Look, wanted: str) -> RollbackSaid:
    """Raises what is a bug here."""
    try:
        look.result()
    except (RetriableError, TimeoutError) as error:
        why = str(error) or f"its pipelines could not be looked at within {_LOOK_S:g} s"
        _log.info("rollback %s: %s; trying again", wanted, why)
        return RollbackSaid(wanted, RollbackStage.CHECKING, f"{why}; trying again")
    except KcontrolError as error:
        return RollbackSaid(wanted, RollbackStage.REFUSED, str(error))
    return RollbackSaid(wanted, RollbackStage.ASKED, NOT_NOTED)
