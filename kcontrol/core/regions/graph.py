"""The graph that the pipelines of a region form: who reads what whom has written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kcontrol.core.model import PipelineSpec


@dataclass(frozen=True)
class RegionGraph:
    """reads, writes: by pipeline, its topics. Without circles, and each topic has one writer within the region."""

    reads: Mapping[str, frozenset[str]]
    writes: Mapping[str, frozenset[str]]

    @cached_property
    def writer_of(self) -> Mapping[str, str]:
        """By topic."""
        return {topic: name for name, topics in self.writes.items() for topic in topics}

    def writers(self, pipeline: str) -> frozenset[str]:
        """The pipelines whose topics it reads."""
        return self._writers[pipeline]

    @cached_property
    def _writers(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(self.writer_of[topic] for topic in self.inner(name)) for name in self.reads}

    def readers(self, pipeline: str) -> frozenset[str]:
        """The pipelines that read its topics."""
        return self._readers[pipeline]

    @cached_property
    def _readers(self) -> Mapping[str, frozenset[str]]:
        return {
            name: frozenset(reader for reader, topics in self.reads.items() if topics & written)
            for name, written in self.writes.items()
        }

    @cached_property
    def starts(self) -> tuple[str, ...]:
        """The pipelines at which a drain begins: they read nothing that one of the region writes."""
        return tuple(sorted(name for name in self.reads if not self.inner(name)))

    def inner(self, pipeline: str) -> frozenset[str]:
        """The topics it reads that a pipeline of the region writes; all others hold outer input."""
        return self.reads[pipeline] & self.writer_of.keys()


def graph_of(specs: Iterable[PipelineSpec]) -> RegionGraph:
    """By what was submitted."""
    specs = tuple(specs)
    return RegionGraph(
        {spec.pipeline: frozenset(each.topic for each in spec.inputs) for spec in specs},
        {spec.pipeline: frozenset(each.topic for each in spec.outputs) for spec in specs},
    )


def refused_graph(graph: RegionGraph) -> str:
    """Why its pipelines can't be drained as one, in one sentence, or ''."""
    seen: dict[str, str] = {}
    for name, topics in sorted(graph.writes.items()):
        for topic in sorted(topics):
            other = seen.setdefault(topic, name)
            if other != name:
                return (
                    f"pipelines {other!r} and {name!r} both write topic {topic!r}: where one of them ends in it "
                    "can't be told from where the other goes on"
                )
    left = set(graph.reads)
    while ready := {name for name in left if not graph.writers(name) & left}:
        left -= ready
    if left:
        return (
            f"pipelines {', '.join(map(repr, sorted(left)))} read what they have written themselves, or each other's: in a "
            "circle something is always under way, and there is no cut"
        )
    return ""
