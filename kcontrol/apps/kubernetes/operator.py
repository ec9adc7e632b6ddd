"""The operator: looks at what the resources say and at what is there, and brings one into line with the other; and again.

It holds nothing. Each pass begins with what the API server and Kafka say now; what it does is the same if it is done
twice, and what was read and is old is refused by the API server and done in the next pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kubernetes.objects import KubernetesObjects
from kcontrol.adapters.kubernetes.watching import watch
from kcontrol.apps.kubernetes.kafka_side import KafkaSide
from kcontrol.apps.kubernetes.making import made
from kcontrol.apps.kubernetes.regions import RegionsPass
from kcontrol.apps.kubernetes.rollbacks import RollbacksAsked
from kcontrol.apps.kubernetes.scene import Scene, read_scene, utc
from kcontrol.core.kubernetes.conditions import status_with
from kcontrol.core.kubernetes.nodes import node_objects
from kcontrol.core.kubernetes.pipelines import pipeline_status, regions_of
from kcontrol.core.kubernetes.resources import Manifest, meta_of
from kcontrol.core.kubernetes.shared import coordinator_objects
from kcontrol.errors import ConfigurationError, KcontrolError, NotFoundError, RetriableError
from kcontrol.requests.region_rollbacks import Rollbacks, no_rollbacks
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.kubernetes")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """look_s: how often statuses are brought up to date. resync_s: how often all is read anew although nothing is news.
    request_s: a request to the API server, and step_s: all that is done for one resource, take no longer."""

    look_s: float = 2.0
    resync_s: float = 30.0
    request_s: float = 10.0
    step_s: float = 30.0


class KubernetesOperator:
    """namespaces: (): all that its account sees. rollbacks: by whom they are planned, and asked for."""

    def __init__(
        self,
        cluster: ClusterSettings,
        namespaces: Collection[str] = (),
        times: OperatorTimes | None = None,
        rollbacks: Rollbacks = no_rollbacks,
    ) -> None:
        self._cluster, self._namespaces = cluster, tuple(namespaces)
        self._times = times or OperatorTimes()
        self._clock, self._rollbacks = SystemClock(), RollbacksAsked(rollbacks)
        self._stop, self._news = asyncio.Event(), asyncio.Event()
        self._is_old = False
        """What was read: something was refused because of it, or has failed."""

    def stop(self) -> None:
        """End after the pass that is under way."""
        self._stop.set()
        self._news.set()

    async def run(self, ready: Callable[[], None], liveness: str | None = None) -> None:
        """Until `stop`. ready: is called once the first pass is done. liveness: a URL at which it says that it watches.

        Raises ConfigurationError, AccessError.
        """
        kafka, watching = KafkaSide(self._cluster), asyncio.Event()
        async with KubernetesObjects(self._times.request_s) as objects:
            watches = asyncio.create_task(
                watch(self._namespaces, self._news.set, self._stop, watching, liveness)
            )
            try:
                await self._passes(objects, kafka, watches, ready)
            finally:
                self._stop.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([watches], timeout=self._times.request_s)
                    watches.cancel()
                await self._rollbacks.close()
                await kafka.close()

    async def _passes(
        self,
        objects: KubernetesObjects,
        kafka: KafkaSide,
        watches: asyncio.Task[None],
        ready: Callable[[], None],
    ) -> None:
        scene, read_s, is_ready = None, 0.0, False
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            if watches.done():
                failure = watches.exception()
                raise RetriableError(
                    f"the watches of Kubernetes have ended ({failure or 'without a reason'}): start the operator again"
                )
            is_old = self._is_old or loop.time() - read_s >= self._times.resync_s
            if scene is None or is_old or self._news.is_set():
                self._news.clear()
                self._is_old = False
                scene = await self._scene(objects)
                read_s = loop.time()
            if scene is not None:
                await self._one_pass(objects, kafka, scene)
                if not is_ready:
                    ready()
                is_ready = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._times.look_s)

    async def _scene(self, objects: KubernetesObjects) -> Scene | None:
        """None: the API server does not answer; it is asked again."""
        try:
            async with asyncio.timeout(self._times.step_s):
                return await read_scene(objects, self._namespaces)
        except NotFoundError as error:
            raise ConfigurationError(
                f"Kubernetes does not know kcontrol's resources: {error}. kubectl apply -k docker/kubernetes/operator"
            ) from error
        except (RetriableError, TimeoutError) as error:
            _log.warning("%s; trying again", error or "Kubernetes does not answer")
            return None

    async def _one_pass(self, objects: KubernetesObjects, kafka: KafkaSide, scene: Scene) -> None:
        """A fault of one resource is no other's."""
        regions = RegionsPass(objects, kafka, self._rollbacks, scene, self._clock)
        for region in scene.regions:
            await self._within(_called(region), regions.region(region))
        for job in scene.jobs():
            await self._within(f"job {job[1]} in {job[0]}", regions.job(*job))
        for namespace in scene.namespaces():
            pipelines = scene.pipelines_in(namespace)
            making = made(objects, scene, namespace, coordinator_objects(pipelines))
            refused = await self._within(f"coordinators in {namespace}", making)
            for pipeline in pipelines:
                done = self._pipeline(objects, kafka, scene, pipeline, refused or "")
                await self._within(_called(pipeline), done)
        await self._rollbacks.forget({meta_of(each).uid for each in scene.regions})
        await kafka.forget(
            {each["metadata"]["name"] for each in scene.pipelines},
            {each["metadata"]["name"] for each in scene.regions},
        )

    async def _within(self, what: str, done: Coroutine[None, None, _Result]) -> _Result | None:
        """None, too, where it was not done, which was said."""
        try:
            async with asyncio.timeout(self._times.step_s):
                return await done
        except TimeoutError:
            _log.warning("%s: not done within %g s; trying again", what, self._times.step_s)
        except RetriableError as error:
            _log.info("%s: %s; trying again", what, error)
            self._is_old = True
        except KcontrolError as error:
            _log.warning("%s: %s", what, error)
        return None

    async def _pipeline(
        self, objects: KubernetesObjects, kafka: KafkaSide, scene: Scene, pipeline: Manifest, refused: str
    ) -> None:
        meta = meta_of(pipeline)
        if meta.deleted_at:
            return
        wrong = await made(objects, scene, meta.namespace, node_objects(pipeline))
        said, is_heard = await kafka.pipeline(meta.name)
        away = scene.away(meta.namespace, meta.name)
        status, conditions = pipeline_status(
            said, is_heard, wrong or refused, away, pipeline["spec"]["nodes"]
        )
        status["regions"] = regions_of(meta.name, scene.regions_in(meta.namespace), scene.defined)
        after = status_with(pipeline, status, conditions, utc(self._clock.now_ms()))
        if after is not None:
            await objects.put_status(pipeline, after)


def _called(resource: Manifest) -> str:
    meta = meta_of(resource)
    return f"{meta.kind} {meta.namespace}/{meta.name}"
