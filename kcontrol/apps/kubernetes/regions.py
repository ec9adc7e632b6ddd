"""One pass over ConsistentRegions and over who looks after them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kubernetes.objects import KubernetesObjects
from kcontrol.apps.kubernetes.kafka_side import KafkaSide
from kcontrol.apps.kubernetes.making import made
from kcontrol.apps.kubernetes.rollbacks import RollbacksAsked
from kcontrol.apps.kubernetes.scene import Scene, seconds_since, utc
from kcontrol.core.kubernetes.abandons import abandon_status
from kcontrol.core.kubernetes.conditions import Condition, status_with
from kcontrol.core.kubernetes.regions import (
    defined_by,
    has_started,
    pods_of,
    region_operator_of,
    region_status,
    requests_of,
    settings_of,
)
from kcontrol.core.kubernetes.resources import FINALIZER, Manifest, meta_of
from kcontrol.core.kubernetes.rollbacks import rollback_before, rollback_status
from kcontrol.core.kubernetes.shared import region_controllers
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import refused_settings
from kcontrol.errors import ConfigurationError, KcontrolError, NotFoundError, TopicError

_log = logging.getLogger("kcontrol.kubernetes")

LEFT_AFTER_S = 600.0
"""So long after its deletion was asked for, a resource goes, whether Kafka has answered or not."""


class RegionsPass:
    def __init__(
        self,
        objects: KubernetesObjects,
        kafka: KafkaSide,
        rollbacks: RollbacksAsked,
        scene: Scene,
        clock: SystemClock,
    ) -> None:
        self._objects, self._kafka, self._rollbacks = objects, kafka, rollbacks
        self._scene, self._clock = scene, clock

    # --- who looks after them -------------------------------------------------------------------------------

    async def job(self, namespace: str, job: str) -> None:
        """Its ConsistentRegionOperator, and the Deployment of that."""
        regions = [
            each
            for each in self._scene.regions_in(namespace)
            if each["spec"]["jobName"] == job and not meta_of(each).deleted_at
        ]
        operator = next(
            (
                each
                for each in self._scene.operators
                if (meta_of(each).namespace, meta_of(each).name) == (namespace, job)
            ),
            None,
        )
        if regions or (operator is not None and _counts_regions_that_are_gone(operator)):
            await self._kept(namespace, job, regions, operator)
        if operator is not None and not meta_of(operator).deleted_at:
            await self._deployed(operator, regions)

    async def _kept(
        self, namespace: str, job: str, regions: list[Manifest], operator: Manifest | None
    ) -> None:
        """One that somebody else has made stays theirs, but for the number of regions, which may be none."""
        wanted = region_operator_of(job, regions, self._scene.pipelines_in(namespace))
        wanted["metadata"]["namespace"] = namespace
        if operator is not None and _is_of_somebody(operator):
            wanted["spec"] = {"jobName": job, "numRegions": len(regions)}
            del wanted["metadata"]["ownerReferences"]
        key = f"{wanted['kind']} {namespace}/{job}"
        if key not in self._scene.made:
            await self._objects.apply(wanted)
            self._scene.made[key] = ""

    async def _deployed(self, operator: Manifest, regions: list[Manifest]) -> None:
        refused = ""
        if regions:
            manifest = region_controllers(operator, [meta_of(each).name for each in regions])
            refused = await made(self._objects, self._scene, meta_of(operator).namespace, [manifest])
        started = has_started([await self._looked_at(each) for each in regions])
        status = {"hasStarted": started or bool((operator.get("status") or {}).get("hasStarted"))}
        accepted = Condition("Accepted", not refused, "Refused" if refused else "Made", refused)
        await self._say(operator, status, accepted)

    async def _looked_at(self, region: Manifest) -> RegionLogView:
        """As far as it can be seen: what is wrong with a region is said of it, and not of its job."""
        try:
            return await self._kafka.define(settings_of(region), defined_by(region))
        except KcontrolError:
            return RegionLogView()

    # --- a region -------------------------------------------------------------------------------------------

    async def region(self, region: Manifest) -> None:
        """Defined in Kafka, asked what is new, and shown."""
        meta = meta_of(region)
        if meta.deleted_at:
            self._scene.defined[meta.uid] = False
            await self._deleted(region)
            return
        if FINALIZER not in meta.finalizers:
            await self._objects.set_finalizers(region, (*meta.finalizers, FINALIZER))
        settings = settings_of(region)
        refused = refused_settings(settings)
        try:
            if refused:
                raise ConfigurationError(refused)
            view = await self._kafka.define(settings, defined_by(region))
        except (ConfigurationError, NotFoundError, TopicError) as error:
            self._scene.defined[meta.uid] = False
            reason = "Refused" if isinstance(error, ConfigurationError) else "WaitsForPipelines"
            _, conditions = rollback_status(rollback_before(region))
            await self._say(region, {}, Condition("Defined", False, reason, str(error)), *conditions)
            return
        self._scene.defined[meta.uid] = True
        asked = {}
        for request in requests_of(region, self._clock.now_ms()):
            await self._kafka.ask(request)
            asked[request.kind.value] = region["spec"][f"{request.kind}Request"]["id"]
        away = [one for name in region["spec"]["pipelines"] for one in self._scene.away(meta.namespace, name)]
        await self._kafka.say_pods(pods_of(region, away, self._clock.now_ms()))
        newest = await self._kafka.newest_rollback(meta.name)
        rollback, conditions = rollback_status(await self._rollbacks.said(region, view, newest))
        given_up = abandon_status(await self._rollbacks.given_up(region, view, newest))
        status = {**_shown(region, view, away, asked), **rollback, **given_up}
        await self._say(region, status, Condition("Defined", True, "Defined"), *conditions)

    async def _deleted(self, region: Manifest) -> None:
        """The definition first. Where Kafka can't be asked for long, the resource goes all the same."""
        meta = meta_of(region)
        if FINALIZER not in meta.finalizers:
            return
        try:
            await self._kafka.undefine(meta.name, defined_by(region))
        except KcontrolError as error:
            if seconds_since(meta.deleted_at, self._clock.now_ms()) < LEFT_AFTER_S:
                await self._say(region, {}, Condition("Defined", True, "NotYetDeleted", str(error)))
                return
            _log.warning(
                "ConsistentRegion %s/%s goes, and its definition stays in Kafka: %s",
                meta.namespace,
                meta.name,
                error,
            )
        others = [each for each in meta.finalizers if each != FINALIZER]
        await self._objects.set_finalizers(region, others)

    async def _say(self, resource: Manifest, status: dict[str, Any], *conditions: Condition) -> None:
        after = status_with(resource, status, conditions, utc(self._clock.now_ms()))
        if after is not None:
            await self._objects.put_status(resource, after)


def _is_of_somebody(operator: Manifest) -> bool:
    """Somebody else has made it, so it stays without a region."""
    return not operator["metadata"].get("ownerReferences")


def _counts_regions_that_are_gone(operator: Manifest) -> bool:
    """Of a job without regions. Nothing is applied to one that is about to go: that could make it anew."""
    is_there = not meta_of(operator).deleted_at
    return is_there and _is_of_somebody(operator) and operator["spec"].get("numRegions", 0) != 0


def _shown(
    region: Manifest, view: RegionLogView, away: Sequence[str], asked: Mapping[str, str]
) -> dict[str, Any]:
    status = region_status(view, away)
    before = (region.get("status") or {}).get("asked") or {}
    return {**status, "asked": {**before, **asked}} if asked else status
