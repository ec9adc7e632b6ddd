"""What lies in a part of a step's input that no task has read to its end, counted by the driver itself."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kcontrol.adapters.files.file_lines import FileLines
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.generated.rows import read_rows
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Sent
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted
from kcontrol.adapters.spark.channel.messages import RunToRead
from kcontrol.core.model import ExchangeSpec, InputRange, SourceSplit
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.addresses import is_topic
from kcontrol.wire.digest import input_kind
from kcontrol.wire.files import is_files
from kcontrol.wire.range_read import RangeRead


def count_split(
    settings: ClusterSettings, item: InputRange, split: SourceSplit, digest_version: int
) -> Counted:
    """What a split holds."""
    ranges = [(split.partition, split.from_, split.to)]
    what = (item.input, item.topic, item.topic_id, ranges)
    reading: RangeRead
    if is_topic(item.topic):
        reading = RangeReader(settings).read_each(*what, kind=input_kind(digest_version))
    else:
        reading = read_lines(*what, made=_without_columns) if is_files(item.topic) else read_rows(*what)
    for _ in reading:
        pass
    return Counted(reading.records, reading.digest.hex)


def _without_columns(lines: FileLines) -> pa.RecordBatch:
    return lines.rows(columns=())


def sent_to_node(attempt: AttemptLedger) -> Sent:
    """Who has written what this node reads in an attempt, or in a replay of it."""
    token = attempt.work.token
    producer = (token.producer_id, token.producer_epoch)
    committed = attempt.expected is not None
    return Sent(attempt.work.step, attempt.exchanging.node, *producer, committed=committed)


def count_runs(
    settings: ClusterSettings,
    exchange: ExchangeSpec,
    schema: pa.Schema,
    runs: Sequence[RunToRead],
    attempt: AttemptLedger,
) -> int:
    """How many rows runs for this node hold. Raises as `ExchangeReader.read`."""
    reader = ExchangeReader(settings, exchange.name, exchange.topic, exchange.topic_id, schema)
    reading = reader.read([(run.partition, run.from_, run.to) for run in runs], sent_to_node(attempt))
    for _ in reading:
        pass
    return reading.records
