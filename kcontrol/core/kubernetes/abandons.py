"""A rollback that a ConsistentRegion asks to be given up: what became of that, as the region's log says.

It names the rollback that whoever asks has seen, by its cut and by a change at which it was under way; so a resource that lies
somewhere for long, or is made anew, gives up no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcontrol.core.kubernetes.conditions import MOST_TEXT
from kcontrol.core.kubernetes.regions import abandon_id_of
from kcontrol.core.kubernetes.resources import Manifest
from kcontrol.core.kubernetes.rollbacks import NOT_NOTED, RollbackSaid, RollbackStage
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.records import RegionOutcome, RegionRequest

_ENDED = (RollbackStage.DONE, RollbackStage.REFUSED)


def wanted_abandon(region: Mapping[str, Any]) -> str:
    """Its id, or '': none is asked for."""
    wish = region["spec"].get("abandonRequest")
    return "" if wish is None else str(wish["id"])


def abandon_in_log(
    region: Mapping[str, Any], view: RegionLogView, newest: RegionRequest | None
) -> RollbackSaid | None:
    """What is known of what is asked for; None: it never came so far, and is to be asked. newest: as in `rollback_in_log`."""
    wanted, before = wanted_abandon(region), _before(region)
    if before is not None and before.stage in _ENDED:
        return before
    request_id = abandon_id_of(region, wanted)
    answer = view.answer(request_id)
    if answer is not None:
        is_done = answer.outcome is RegionOutcome.DONE
        return RollbackSaid(wanted, RollbackStage.DONE if is_done else RollbackStage.REFUSED, answer.why)
    if newest is not None and newest.request_id == request_id:
        return RollbackSaid(wanted, RollbackStage.ASKED, NOT_NOTED)
    if before is None:
        return None
    whose = "somebody else" if newest is None else newest.by
    return RollbackSaid(
        wanted, RollbackStage.REFUSED, f"{whose} has asked for another rollback since, which counts instead"
    )


def _before(region: Mapping[str, Any]) -> RollbackSaid | None:
    said = (region.get("status") or {}).get("abandon")
    if said is None or said["id"] != wanted_abandon(region):
        return None
    return RollbackSaid(said["id"], RollbackStage(said["stage"]), said["why"])


def abandon_status(said: RollbackSaid | None) -> Manifest:
    """None: none is asked for. The status then keeps what became of the last one."""
    if said is None:
        return {}
    return {"abandon": {"id": said.id, "stage": said.stage.value, "why": said.why[:MOST_TEXT]}}
