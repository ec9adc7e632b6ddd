"""Rows with keys that stay on the node that made them: `KafkaOutput(partitioner="shard")`.

Behind an exchange a row is on the node that owns its shard. Where an output has a multiple of as many partitions as there are
nodes, the partition of the same number, modulo, is that node's, too, so nobody has to bring the row anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame

from kcontrol.adapters.spark.internals import plan_of
from kcontrol.adapters.spark.query.exchanged_types import shard_of
from kcontrol.adapters.spark.query.meeting import held_at_end
from kcontrol.definition.parts import KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError


def shard_columns(
    frame: DataFrame, outputs: Sequence[KafkaOutput], pipeline: Pipeline, by: Mapping[str, Sequence[str]]
) -> list[Column]:
    """The shard of each row of a query's frame, if that is what its outputs are partitioned by; on one node they never are.

    by: of each exchange that the frame reads, the columns. Raises ConfigurationError where the shard can't be told from the
    rows, or equal keys would be in several partitions.
    """
    output = outputs[0]
    if output.partitioner != "shard" or pipeline.nodes == 1:
        return []
    where = f"output {output.name!r} has partitioner='shard'"
    if not by:
        raise ConfigurationError(
            f"{where}, and its rows come from no exchange: shards are what kcontrol.exchange(by=...) brings rows together by; "
            "leave partitioner out"
        )
    if "partition" in frame.columns:
        raise ConfigurationError(
            f"{where}, and its rows bring a column 'partition': leave one of the two out"
        )
    if output.key is None and "key" not in frame.columns:
        raise ConfigurationError(f"{where}, and its rows have no keys: set key=, or leave partitioner out")
    held = held_at_end(plan_of(frame), by)
    if held is None:
        named = " or ".join(", ".join(columns) for columns in by.values())
        raise ConfigurationError(
            f"{where}, and its rows don't have all columns any more, unchanged, by which they were exchanged ({named}): keep "
            "them, or leave partitioner out"
        )
    if output.key is not None and held and not (len(held) == 1 and output.key in held[0]):
        raise ConfigurationError(
            f"{where} and key = {output.key!r}, but its rows were exchanged by {', '.join(sorted(min(one) for one in held))}: "
            "equal keys would be in several partitions; exchange by the key alone, or leave partitioner out"
        )
    return [shard_of([min(one) for one in held], pipeline.layout.shuffle_partitions)]
