"""What the API server said of all that the operator looks at, at one time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kcontrol.adapters.kubernetes.objects import KubernetesObjects
from kcontrol.core.kubernetes.pods import not_running, pipeline_of_pod
from kcontrol.core.kubernetes.resources import (
    APP_LABELS,
    PIPELINE,
    REGION,
    REGION_OPERATOR,
    Manifest,
    meta_of,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """sets: StatefulSets by uid. made: by what was to be made in this scene, why it could not be, or ''. defined: by uid of a
    ConsistentRegion that was looked at in it, whether it is defined in Kafka."""

    operators: list[Manifest]
    regions: list[Manifest]
    pipelines: list[Manifest]
    sets: Mapping[str, Manifest]
    pods: list[Manifest]
    made: dict[str, str] = field(default_factory=dict)
    defined: dict[str, bool] = field(default_factory=dict)

    def namespaces(self) -> list[str]:
        return sorted({meta_of(each).namespace for each in self.pipelines})

    def pipelines_in(self, namespace: str) -> list[Manifest]:
        return [each for each in self.pipelines if meta_of(each).namespace == namespace]

    def regions_in(self, namespace: str) -> list[Manifest]:
        return [each for each in self.regions if meta_of(each).namespace == namespace]

    def jobs(self) -> list[tuple[str, str]]:
        """(namespace, job) of all that have a region, or somebody who looks after them."""
        found = {
            (meta_of(each).namespace, each["spec"]["jobName"]) for each in (*self.regions, *self.operators)
        }
        return sorted(found)

    def away(self, namespace: str, pipeline: str) -> list[str]:
        """The pods of a pipeline's nodes that do not run, each with its phase; [] where it has no resource here: its nodes may
        run anywhere."""
        known = [each for each in self.pipelines_in(namespace) if meta_of(each).name == pipeline]
        pods = [
            each
            for each in self.pods
            if each["metadata"]["namespace"] == namespace and pipeline_of_pod(each, self.sets) == pipeline
        ]
        return [one for each in known for one in not_running(each["spec"]["nodes"], pipeline, pods)]


async def read_scene(objects: KubernetesObjects, namespaces: Collection[str]) -> Scene:
    """namespaces: (): all. Raises as KubernetesObjects does."""

    async def all_of(kind: str, labels: Mapping[str, str] | None = None) -> list[Manifest]:
        wanted: tuple[str | None, ...] = tuple(namespaces) or (None,)
        return [each for where in wanted for each in await objects.list(kind, where, labels)]

    operators = await all_of(REGION_OPERATOR)
    return Scene(
        operators=operators,
        regions=await all_of(REGION),
        pipelines=await all_of(PIPELINE),
        sets={meta_of(each).uid: each for each in await all_of("StatefulSet", APP_LABELS)},
        pods=await all_of("Pod", APP_LABELS),
    )


def utc(at_ms: int) -> str:
    """As Kubernetes writes times."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(then: str, now_ms: int) -> float:
    """then: as Kubernetes writes it."""
    return now_ms / 1000 - datetime.fromisoformat(then).timestamp()
