"""Reads the splits of a source task: exact ranges, straight into Arrow, with what was found counted for the boundary."""

from __future__ import annotations

import functools
from collections.abc import Generator

import pyarrow as pa

from kcontrol.adapters.kafka.ranges import RangeReader
from kcontrol.adapters.spark.attempt import Counted
from kcontrol.adapters.spark.channel import ChannelAddress, client_of
from kcontrol.core.model import InputRange, SourceSplit
from kcontrol.runtime.settings import ClusterSettings


@functools.lru_cache(maxsize=4)
def cluster_settings(address: ChannelAddress) -> ClusterSettings:
    """The driver's cluster, secrets included: asked for once in the life of a worker process, never in a file or a plan."""
    return ClusterSettings(**client_of(address).ask("settings"))


def read_split(
    settings: ClusterSettings, split: SourceSplit, topic: str, topic_id: str, with_headers: bool
) -> Generator[pa.RecordBatch, None, Counted]:
    """Yields the records of a split; returns how many there were and their digest."""
    reading = RangeReader(settings).read(
        split.input, topic, topic_id, split.partition, split.from_, split.to, headers=with_headers
    )
    yield from reading
    return Counted(reading.records, reading.digest.hex)


def count_split(settings: ClusterSettings, item: InputRange, split: SourceSplit) -> Counted:
    """What a split holds, read by the driver itself."""
    reading = RangeReader(settings).read(item.input, item.topic, item.topic_id, split.partition, split.from_, split.to)
    for _ in reading:
        pass
    return Counted(reading.records, reading.digest.hex)
