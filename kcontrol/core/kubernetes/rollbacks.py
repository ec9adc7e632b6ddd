"""A rollback that a ConsistentRegion asks for: what became of it, as the region's log says, and how that is shown.

What is in the log counts. Only what never came so far, because it could not be, is told from the status alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kcontrol.core.kubernetes.conditions import MOST_TEXT, Condition
from kcontrol.core.kubernetes.regions import request_id_of
from kcontrol.core.kubernetes.resources import Manifest
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.records import RegionAnswer, RegionOutcome, RegionRequest, RegionRequestKind

ROLLED_BACK = "RolledBack"
"""The condition."""
NOT_NOTED = "it is asked for, and the region's controller has not taken note of it yet"


class RollbackStage(StrEnum):
    """How far a rollback has come, in the words of a condition."""

    CHECKING = "Checking"
    """Whether it can be. Nothing was asked for yet."""
    ASKED = "Asked"
    """The region's controller has to take note of it."""
    UNDER_WAY = "UnderWay"
    DONE = "Done"
    REFUSED = "Refused"
    SUPERSEDED = "Superseded"
    """Somebody else has asked for another one since, or has given it up."""


_ENDED = (RollbackStage.DONE, RollbackStage.REFUSED, RollbackStage.SUPERSEDED)


@dataclass(frozen=True, slots=True)
class RollbackSaid:
    """What became of the rollback with this id of `spec.rollbackRequest`. why: in a sentence."""

    id: str
    stage: RollbackStage
    why: str = ""


def wanted_rollback(region: Mapping[str, Any]) -> str:
    """Its id, or '': none is asked for."""
    wish = region["spec"].get("rollbackRequest")
    return "" if wish is None else str(wish["id"])


def rollback_before(region: Mapping[str, Any]) -> RollbackSaid | None:
    """What its status says of the rollback that is asked for; None: nothing."""
    said = (region.get("status") or {}).get("rollback")
    if said is None or said["id"] != wanted_rollback(region):
        return None
    return RollbackSaid(said["id"], RollbackStage(said["stage"]), said["why"])


def rollback_in_log(
    region: Mapping[str, Any], view: RegionLogView, newest: RegionRequest | None
) -> RollbackSaid | None:
    """What is known of the rollback that is asked for; None: it never came so far, and is to be looked at.

    newest: the request for a rollback that counts in the topic of regions, whosoever.
    """
    wanted, before = wanted_rollback(region), rollback_before(region)
    if before is not None and before.stage in _ENDED:
        return before
    request_id = request_id_of(region, RegionRequestKind.ROLLBACK, wanted)
    known = _known(wanted, request_id, view)
    if known is not None:
        return known
    if newest is not None and newest.request_id == request_id:
        return RollbackSaid(wanted, RollbackStage.ASKED, NOT_NOTED)
    if before is None or before.stage is RollbackStage.CHECKING:
        return None
    whose = "somebody else" if newest is None else newest.by
    why = f"{whose} has asked for another rollback since, which counts instead"
    return RollbackSaid(wanted, RollbackStage.SUPERSEDED, why)


def _known(wanted: str, request_id: str, view: RegionLogView) -> RollbackSaid | None:
    answer = view.answer(request_id)
    if answer is not None:
        return _answered(wanted, answer)
    cuts = {
        number: each.rollback.to_cut
        for number, each in view.changes.items()
        if each.rollback is not None and each.rollback.request_id == request_id
    }
    if not cuts:
        return None
    last = max(cuts)
    after = view.changes.get(last + 1)
    if after is None:
        return RollbackSaid(wanted, RollbackStage.UNDER_WAY, _waits(view, cuts[last]))
    if after.gives_up:
        return RollbackSaid(wanted, RollbackStage.SUPERSEDED, f"it was given up {after.happened.why}")
    if after.rollback is None:
        # A request that was refused on the way has left its answer there.
        return _done(wanted, cuts[last])
    why = f"{after.rollback.by} has asked for cut {after.rollback.to_cut} on the way, which counts instead"
    return RollbackSaid(wanted, RollbackStage.SUPERSEDED, why)


def _waits(view: RegionLogView, to_cut: int) -> str:
    waits = () if view.beat is None else view.beat.waits_for
    return "; ".join((f"pipelines are taken back to cut {to_cut}", *waits))


def _answered(wanted: str, answer: RegionAnswer) -> RollbackSaid:
    if answer.outcome is RegionOutcome.DONE:
        return _done(wanted, answer.seq_id)
    return RollbackSaid(wanted, RollbackStage.REFUSED, answer.why)


def _done(wanted: str, cut: int) -> RollbackSaid:
    return RollbackSaid(wanted, RollbackStage.DONE, f"all pipelines are back at cut {cut}: start them again")


def rollback_status(said: RollbackSaid | None) -> tuple[Manifest, tuple[Condition, ...]]:
    """None: none is asked for. The status then keeps what became of the last one, so that its id does not ask again."""
    if said is None:
        return {}, ()
    status = {"rollback": {"id": said.id, "stage": said.stage.value, "why": said.why[:MOST_TEXT]}}
    is_done = said.stage is RollbackStage.DONE
    return status, (Condition(ROLLED_BACK, is_done, said.stage.value, f"{said.id}: {said.why}"),)
