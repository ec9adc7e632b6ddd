"""What the outer input before a cut leads to, record by record, against what is in the topics before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcontrol.core.regions.cut import PipelineCut, Place
from tests.simulation.regions.pipelines import SimulatedPipeline, Topic, all_made_of


@dataclass
class Recomputed:
    """pipelines: writers before their readers. Logs only grow: of two cuts that are both as recomputed, what lies between them
    is, too. So each cut is held against the one before it; and where it goes back behind that, against the beginning."""

    pipelines: Mapping[str, SimulatedPipeline]
    last: Mapping[str, PipelineCut] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._writers = {one.output.name: name for name, one in self.pipelines.items()}

    def differing(self, cut: Mapping[str, PipelineCut]) -> tuple[str, ...]:
        """The pipelines whose output is something else. Positions in outer topics differ between pipelines that read them both:
        each has its own outer input."""
        before = self.last if self._goes_on(cut) else {}
        made: dict[str, list[str]] = {}
        differing = []
        for name, pipeline in self.pipelines.items():
            now, old = cut[name], before.get(name)
            output, read = pipeline.output, list[str]()
            for topic in pipeline.inputs:
                if topic.name in self._writers:
                    read += made[self._writers[topic.name]]
                else:
                    read += _between(topic, {} if old is None else old.positions, now.positions)
            made[name] = all_made_of(read, name)
            if sorted(made[name]) != sorted(_between(output, {} if old is None else old.ends, now.ends)):
                differing.append(name)
        if not differing:
            self.last = cut
        return tuple(differing)

    def _goes_on(self, cut: Mapping[str, PipelineCut]) -> bool:
        return all(
            _is_behind(one.positions, cut[name].positions) and _is_behind(one.ends, cut[name].ends)
            for name, one in self.last.items()
        )


def _is_behind(before: Mapping[Place, int], now: Mapping[Place, int]) -> bool:
    return all(now.get(place, 0) >= offset for place, offset in before.items())


def _between(topic: Topic, before: Mapping[Place, int], now: Mapping[Place, int]) -> list[str]:
    found: list[str] = []
    for partition, log in enumerate(topic.partitions):
        place = topic.place(partition)
        found += filter(None, log[before.get(place, 0) : now.get(place, 0)])
    return found
