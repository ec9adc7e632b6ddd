"""The newest cut of several pipelines, found in their logs of steps: nobody is asked, held or written to.

Readers' logs are read before the logs of those whose topics they read, and where an output ends before either, so that
whatever comes meanwhile makes the cut that is found an older one, and never one that is none. So does a broker that is behind,
but for partitions that none of the steps that were looked at has written to: decision 117 says what is left of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.recorded import boundaries_of
from kcontrol.apps.specs import all_specs
from kcontrol.core.model import PipelineSpec, Status, StepBoundary
from kcontrol.core.regions.cut import Place, written_up_to
from kcontrol.core.regions.graph import RegionGraph, graph_of, refused_graph
from kcontrol.core.regions.newest import StepPlace, newest_cut, places_of
from kcontrol.errors import ConfigurationError, NotFoundError, RetriableError
from kcontrol.settings.cluster import ClusterSettings


@dataclass(frozen=True, slots=True)
class CutStep:
    """One pipeline's part of a cut. newest: the last step that its log held. boundary: of the step of the cut."""

    pipeline: str
    boundary: StepBoundary
    newest: int


async def find_cut(
    cluster: ClusterSettings, pipelines: Sequence[str], most_steps: int
) -> tuple[CutStep, ...] | None:
    """In the order in which rows go through them; None: the newest `most_steps` steps of each hold no cut.

    Raises NotFoundError: there is no such pipeline, or it has committed nothing. ConfigurationError: they can't be at one
    moment. RetriableError: a broker that is behind has shown the log of one.
    """
    specs = await specs_of(cluster, pipelines)
    graph = graph_of(specs.values())
    refused = refused_graph(graph)
    if refused:
        raise ConfigurationError(refused)
    order = readers_first(graph)
    ended = await asyncio.to_thread(_ends, cluster, specs)
    places: dict[str, tuple[StepPlace, ...]] = {}
    made: dict[str, Sequence[StepBoundary]] = {}
    for name in order:
        made[name], before = await _boundaries(cluster, name, most_steps)
        places[name] = places_of(made[name], ended[name], before)
    found = newest_cut(graph, places)
    if found is None:
        return None
    return tuple(
        CutStep(name, _of_step(made[name], found[name].cut.step), made[name][-1].step)
        for name in reversed(order)
    )


async def specs_of(cluster: ClusterSettings, pipelines: Sequence[str]) -> Mapping[str, PipelineSpec]:
    """Of pipelines by name. Raises NotFoundError: there is no such one."""
    every = await all_specs(cluster)
    for name in pipelines:
        if name not in every:
            raise NotFoundError(f"there is no pipeline {name!r}: see kcontrol list")
    return {name: every[name] for name in pipelines}


def readers_first(graph: RegionGraph) -> list[str]:
    """Its pipelines, each before those whose topics it reads."""
    order: list[str] = []
    while len(order) < len(graph.reads):
        order += sorted(
            name for name in graph.reads if name not in order and graph.readers(name) <= set(order)
        )
    return order


def _ends(cluster: ClusterSettings, specs: Mapping[str, PipelineSpec]) -> dict[str, dict[Place, int]]:
    """By pipeline, where the partitions of its outputs end now."""
    admin = TopicAdmin(cluster)
    found: dict[str, dict[Place, int]] = {}
    for name, spec in specs.items():
        found[name] = {
            (output.topic, partition): end
            for output in spec.outputs
            for partition, end in enumerate(admin.offsets(output.topic, output.partitions).latest)
        }
    return found


async def _boundaries(
    cluster: ClusterSettings, pipeline: str, most_steps: int
) -> tuple[list[StepBoundary], Mapping[Place, int]]:
    """The newest steps, and where the last records lie of older ones that were read with them."""
    async with pipeline_logs(cluster, pipeline) as logs:
        _, read = await logs.read()
        steps = logs.committed
        if steps.last is None:
            raise NotFoundError(f"pipeline {pipeline!r} has no committed step yet")
        refuse_old(logs.view.status(), steps.step)
        first = max(steps.first, steps.step - most_steps + 1)
        found = await boundaries_of(logs, read, first, steps.step)
    back = [one.step for one in found if one.reset is not None]
    if back:
        since = steps.step - back[-1]
        raise ConfigurationError(
            f"pipeline {pipeline!r} was reset by its step {back[-1]}: what void steps wrote is in its topics, and "
            "its readers' logs do not tell it from the rest. "
            + (
                f"Look at the newest {since} steps alone: --steps {since}"
                if since
                else "No step was made since"
            )
        )
    older = (each.record for each in read if isinstance(each.record, StepBoundary))
    return found, written_up_to(each for each in older if each.step < first)


def refuse_old(status: Status | None, step: int) -> None:
    """Raises RetriableError: the log of steps, of which `step` was the last one, was read by a broker that is behind; a reader
    may have read what the steps that it does not show have written."""
    if status is not None and status.step > step:
        raise RetriableError(
            f"pipeline {status.pipeline!r}: its coordinator has said that step {status.step} is committed, and the log of "
            f"steps was read to step {step} only: a broker that is behind has answered. Ask again"
        )


def _of_step(boundaries: Sequence[StepBoundary], step: int) -> StepBoundary:
    return next(one for one in boundaries if one.step == step)
