"""What a cut that is not the recomputation is to be blamed on: each step up to it is held against what lies in topics now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka.admin import AdminClient

from bench.regions.relay import values_of
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.cut import PipelineCut, Place
from kcontrol.settings.cluster import ClusterSettings


def explained(
    settings: ClusterSettings, cuts: Mapping[str, PipelineCut], steps: Mapping[str, Sequence[StepBoundary]]
) -> str:
    """A line for each step that read or wrote other than it says, and for each end of a cut that is before what was written;
    then the topics as brokers see them. steps: of each pipeline, all of them."""
    found = [
        line
        for name, cut in cuts.items()
        for line in _wrong(settings, name, cut, [each for each in steps[name] if each.step <= cut.step])
    ]
    return "\n".join(
        [*(found or ["all steps read and wrote what they say"]), *_seen_by_brokers(settings, cuts)]
    )


def _wrong(
    settings: ClusterSettings, name: str, cut: PipelineCut, steps: Sequence[StepBoundary]
) -> Iterator[str]:
    ends: dict[Place, int] = {}
    for one in steps:
        said = f"{name}, step {one.step}"
        for read in one.inputs:
            lies = _many(settings, read.topic, read.partition, read.from_, read.to)
            if lies != read.records:
                yield f"{said} read {read.records} records where {lies} lie: {read}"
        for wrote in one.outputs:
            lies = _many(settings, wrote.topic, wrote.partition, wrote.from_, wrote.to)
            if lies != wrote.records:
                yield f"{said} wrote {wrote.records} records where {lies} lie: {wrote}"
            place = wrote.topic, wrote.partition
            ends[place] = max(ends.get(place, 0), wrote.to)
    for place, end in ends.items():
        if cut.ends.get(place, 0) < end:
            yield f"{name}: the cut ends at {cut.ends.get(place)} of {place}, which was written to {end}"


def _many(settings: ClusterSettings, topic: str, partition: int, from_: int, to: int) -> int:
    return sum(1 for _ in values_of(settings, topic, partition, from_, to))


def _seen_by_brokers(settings: ClusterSettings, cuts: Mapping[str, PipelineCut]) -> Iterator[str]:
    topics = {topic for cut in cuts.values() for topic, _ in (*cut.ends, *cut.positions)}
    known = AdminClient({"bootstrap.servers": settings.bootstrap_servers}).list_topics(timeout=20).topics
    for topic in sorted(topics):
        for part in known[topic].partitions.values():
            yield f"{topic}-{part.id}: leader {part.leader}, in sync {part.isrs} of {part.replicas}"
