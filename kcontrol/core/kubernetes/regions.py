"""A ConsistentRegion, as what kcontrol defines and is asked for; and what its status says of the region's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kcontrol.core.kubernetes.resources import API_VERSION, REGION_OPERATOR, Manifest, meta_of, owner_of
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import DrainMode, RegionSettings, Trigger
from kcontrol.core.regions.records import RegionPods, RegionRequest, RegionRequestKind

BY = "kubernetes"
RARELY_DRAINED_ATTEMPTS, ATTEMPTS = 1_000, 5
_TRIGGERS = {"periodic": Trigger.PERIODIC, "operatorDriven": Trigger.OPERATOR_DRIVEN}
_MOST_WAITS = _MOST_AWAY = 100


def settings_of(region: Mapping[str, Any]) -> RegionSettings:
    spec = region["spec"]
    trigger = _TRIGGERS[spec["trigger"]]
    attempts = RARELY_DRAINED_ATTEMPTS if trigger is Trigger.OPERATOR_DRIVEN else ATTEMPTS
    participants = tuple(spec.get("participants", ()))
    return RegionSettings(
        region=region["metadata"]["name"],
        members=(*spec["pipelines"], *participants),
        trigger=trigger,
        triggers=tuple(spec.get("operatorsToTrigger", ())),
        period_ms=round(spec["period"] * 1000),
        drain_timeout_ms=round(spec["drainTimeout"] * 1000),
        reset_timeout_ms=round(spec["resetTimeout"] * 1000),
        max_reset_attempts=spec.get("maxConsecutiveResetAttempts", attempts),
        keep_cuts=spec["keepCuts"],
        participants=participants,
        participant_lease_ms=round(spec["participantLease"] * 1000),
        drain=DrainMode(spec.get("drain", DrainMode.ALIGNED)),
    )


def defined_by(region: Mapping[str, Any]) -> str:
    """By whom, as the definition in Kafka says it: a region of that name in another namespace is another's."""
    meta = meta_of(region)
    return f"{BY} {meta.namespace}/{meta.name}"


def request_id_of(region: Mapping[str, Any], kind: RegionRequestKind, wish: str) -> str:
    """By which the region's log names what a resource asks for. wish: its id in `spec`, which no other of its kind has."""
    return f"{BY}-{meta_of(region).uid}-{kind}-{wish}"


def abandon_id_of(region: Mapping[str, Any], wish: str) -> str:
    """The same of a rollback that is given up, which no rollback has."""
    return f"{BY}-{meta_of(region).uid}-abandon-{wish}"


def requests_of(region: Mapping[str, Any], at_ms: int) -> list[RegionRequest]:
    """What is asked for and was not yet: each id once, whoever asks for something else later. But for a rollback, which is
    looked at first, and of one that is given up."""
    spec, meta = region["spec"], meta_of(region)
    asked = (region.get("status") or {}).get("asked") or {}
    found = []
    for kind in (RegionRequestKind.RESET, RegionRequestKind.RESUME, RegionRequestKind.DRAIN):
        wish = spec.get(f"{kind}Request")
        if wish is None or asked.get(kind.value) == wish["id"]:
            continue
        request_id = request_id_of(region, kind, wish["id"])
        hold, force = wish.get("hold", False), wish.get("force", False)
        found.append(RegionRequest(meta.name, kind, defined_by(region), at_ms, request_id, hold, force))
    return found


def pods_of(region: Mapping[str, Any], away: Sequence[str], at_ms: int) -> RegionPods:
    """As the region's controller is told of them: one that is away is enough for it, so not all are named."""
    return RegionPods(meta_of(region).name, defined_by(region), at_ms, tuple(away[:_MOST_AWAY]))


def region_status(view: RegionLogView, away: Sequence[str]) -> Manifest:
    """away: pods that do not run, each with its phase."""
    newest = view.newest
    if newest is None:
        return {"podsNotRunning": list(away)}
    waits = () if view.beat is None else view.beat.waits_for
    starts = () if view.beat is None else view.beat.starts
    return {
        "state": newest.state.value,
        "peToCompletion": {
            each.name: "" if each.part is None else each.part.value for each in newest.members
        },
        "participants": [
            {"name": each.name, "hasJoined": each.life >= 0}
            for each in newest.members
            if each.name in newest.settings.participants
        ],
        "isRegionHealthy": newest.is_healthy and not away,
        "isCleanStart": newest.is_clean_start,
        "isHealthyFirstTime": newest.is_healthy_first_time,
        "isMustReset": newest.must_reset,
        "currentResetAttempt": newest.reset_attempt,
        "currentMaxResetAttempts": newest.max_reset_attempts,
        "currentSeqID": newest.current_seq_id,
        "lastCompletedSeqID": newest.last_completed_seq_id,
        "pendingSeqID": newest.pending_seq_id,
        "toRetireSeqID": newest.to_retire_seq_id,
        "numStartOperators": len(starts),
        "operatorsToStartRegion": list(starts),
        "controller": view.owner,
        "change": newest.number,
        "waitsFor": list(waits[:_MOST_WAITS]),
        "podsNotRunning": list(away),
        "answers": {
            each.kind.value: f"{each.outcome}{': ' + each.why if each.why else ''}" for each in newest.answers
        },
    }


def region_operator_of(
    job: str, regions: Sequence[Mapping[str, Any]], pipelines: Collection[Mapping[str, Any]]
) -> Manifest:
    """The ConsistentRegionOperator of a job with these regions, which goes with the last of them. It finds Kafka as the first
    of their pipelines does that has a resource."""
    known = {each["metadata"]["name"]: each["spec"] for each in pipelines}
    members = [name for region in regions for name in region["spec"]["pipelines"]]
    like: Mapping[str, Any] = next((known[name] for name in members if name in known), {})
    around = {key: like[key] for key in ("image", "settings", "secrets") if key in like}
    return {
        "apiVersion": API_VERSION,
        "kind": REGION_OPERATOR,
        "metadata": {"name": job, "ownerReferences": [owner_of(each, controls=False) for each in regions]},
        "spec": {"jobName": job, "numRegions": len(regions), **around},
    }


def has_started(views: Collection[RegionLogView]) -> bool:
    """Whether somebody is, or was, in charge of each."""
    return bool(views) and all(view.newest is not None for view in views)
