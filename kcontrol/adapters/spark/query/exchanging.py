"""Cuts a query at its exchanges: what is before one is a Spark query of its own, which sends, and what is behind it
reads a stream of what was sent.

An exchange brings rows to nodes by the hash that Spark itself uses for the partitions of a shuffle, so a shard is a
partition of the state behind it. Spark is asked for that hash, and for those that a digest of the rows is made of: they
are columns of the sender's frame.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.targets import HASH_COLUMNS, SHARD_COLUMN
from kcontrol.adapters.spark.internals import PlanNode, plan_of
from kcontrol.adapters.spark.query.as_read import sent_as_read
from kcontrol.adapters.spark.query.combining import Combining, combining_of
from kcontrol.adapters.spark.query.exchanged_types import (
    check_carried,
    check_hashed,
    digest_columns,
    named,
    shard_of,
)
from kcontrol.adapters.spark.query.exchanged_watermark import with_watermark_of
from kcontrol.adapters.spark.query.grouping import by_text, keys_text
from kcontrol.adapters.spark.query.meeting import check_met
from kcontrol.adapters.spark.query.merging import check_merged
from kcontrol.adapters.spark.query.plan import exchanges_read, inputs_read
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.adapters.spark.source.as_read import SentAsRead
from kcontrol.adapters.spark.source.exchange_source import EXCHANGE_SOURCE, exchange_options
from kcontrol.adapters.spark.values.nullable import nullable
from kcontrol.definition.exchanges import (
    SEND,
    ExchangeCompression,
    ExchangeFacts,
    as_list,
    asked_query,
    check_words,
)
from kcontrol.definition.frames import FrameQuery, check_frame
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError

MakeSent = Callable[[DataFrame], DataFrame]
"""From the rows of a step, as a batch frame, to those that are sent, with their shard and hashes."""

_OWN = frozenset({SHARD_COLUMN, *HASH_COLUMNS})
_PACKAGE = str(Path(__file__).parents[3])


@dataclass(frozen=True, slots=True)
class AskedExchange:
    """An exchange as its query asked for it. frame: of the rows that it sends, with `by` among the columns; combining:
    what is made of them before, if anything."""

    facts: ExchangeFacts
    frame: DataFrame
    where: str
    """File and line of the call."""
    combining: Combining | None = None

    def query(self) -> FrameQuery:
        """The one that sends."""
        return FrameQuery(self.frame, "append", (), self.where, sends=self.facts.name)


class Exchanges:
    """Those of one pipeline in one session, as its queries ask for them."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, address: ChannelAddress) -> None:
        self._spark, self._pipeline, self._address = spark, pipeline, address
        self._names: dict[str, str] = {}
        self._combines = False
        self.sent: list[AskedExchange] = []

    def exchange(
        self,
        frame: Any,
        by: Any,
        *,
        combine: Any = None,
        name: str | None = None,
        compression: ExchangeCompression = "lz4",
    ) -> DataFrame:
        """See `kcontrol.exchange`. Raises ConfigurationError."""
        check_words(name, compression)
        check_frame(frame)
        where = f"exchange({name!r})" if name else "exchange"
        whole, columns = _with_columns(frame, as_list(by), where)
        check_hashed(where, [whole.schema[column] for column in columns])
        _check_names(whole, where)
        combining = None if combine is None else combining_of(whole, columns, as_list(combine), where)
        self._combines = self._combines or combining is not None
        received = whole if combining is None else combining.alone(whole)
        if not frame.isStreaming:
            if self._pipeline.nodes > 1:
                raise ConfigurationError(f"{where}: batch frames can't be exchanged between nodes")
            return received
        name = self._named(name, where)
        if self._pipeline.nodes == 1:
            return received
        return self._cut(whole, received, columns, name, compression, combining)

    def read_batch(self, name: str, tasks: int) -> DataFrame:
        """What takes the place of the stream of an exchange in a plan that is kept."""
        schema = next(each.facts.schema for each in self.sent if each.facts.name == name)
        options = exchange_options(self._address, name, schema, tasks)
        return self._spark.read.format(EXCHANGE_SOURCE).options(**options).load()

    def _named(self, name: str | None, where: str) -> str:
        if name is None:
            stem = asked_query() or "exchange"
            name = next(
                found for number in range(1, 1 << 30) if (found := f"{stem}_{number}") not in self._names
            )
        if name in self._names:
            raise ConfigurationError(
                f"{where}: there is an exchange of this name already, at {self._names[name]}: give each a name of its own"
            )
        self._names[name] = _caller()
        return name

    def _cut(
        self,
        whole: DataFrame,
        rows: DataFrame,
        by: Sequence[str],
        name: str,
        compression: ExchangeCompression,
        combining: Combining | None,
    ) -> DataFrame:
        """rows: the frame that one node would be given; others have its columns, types and watermark."""
        where = f"exchange({name!r})"
        check_carried(where, rows.schema)
        stage = self.stage_of(plan_of(whole), where)
        schema = StructType([StructField(field.name, nullable(field.dataType)) for field in rows.schema])
        parts = () if combining is None else tuple(part.text for part in combining.parts)
        facts = ExchangeFacts(
            *(name, tuple(by), stage, f"{name}{SEND}", compression), schema=schema.json(), combine=parts
        )
        options = exchange_options(self._address, name, facts.schema)
        received = self._spark.readStream.format(EXCHANGE_SOURCE).options(**options).load()
        received = with_watermark_of(received, rows, where)
        frame = whole if combining is None else combining.needed(whole)
        self.sent.append(AskedExchange(facts, frame, self._names[name], combining))
        return received

    def stage_of(self, plan: PlanNode, where: str) -> int:
        """The stage of a step in which a query with this plan runs. Raises ConfigurationError if it reads rows that
        were exchanged and others that were not."""
        exchanges, inputs = list(exchanges_read(plan)), list(inputs_read(plan))
        if exchanges and inputs:
            raise ConfigurationError(
                f"{where} brings rows together that were exchanged ({', '.join(sorted(set(exchanges)))}) and rows of "
                f"input {inputs[0]!r} as they were read, which are on other nodes: exchange these too, by the same "
                "columns"
            )
        stages = {sent.facts.name: sent.facts.stage for sent in self.sent}
        return max((stages[name] + 1 for name in exchanges), default=0)

    def check_read(self, frame: DataFrame, query: str) -> None:
        """Raise ConfigurationError if a query reads exchanges and does with their rows what it can't, or reads one of
        them twice."""
        plan = plan_of(frame)
        self.stage_of(plan, f"query {query!r}")
        read = list(exchanges_read(plan))
        for name in read:
            if read.count(name) > 1:
                raise ConfigurationError(
                    f"query {query!r} reads exchange {name!r} twice: call exchange() once for each frame that it needs"
                )
        if read:
            check_met(plan, self.by_of(frame), query)
        if self._combines:
            check_merged(plan, query)

    def by_of(self, frame: DataFrame) -> dict[str, tuple[str, ...]]:
        """The columns of each exchange that a frame reads."""
        by = {sent.facts.name: sent.facts.by for sent in self.sent}
        return {name: by[name] for name in exchanges_read(plan_of(frame))}

    def sending(self, name: str, frame: DataFrame) -> tuple[DataFrame, MakeSent | None]:
        """What a sender's query gives, of a frame that was asked for, and what its sink makes of the rows of each step; None:
        they are sent as they are."""
        sent = next(each for each in self.sent if each.facts.name == name)
        shards = self._pipeline.layout.shuffle_partitions
        if sent.combining is None:
            return sent_columns(frame, sent.facts.by, shards), None
        return frame, sent_together(sent.combining, sent.combining.alone(frame), sent.facts.by, shards)

    def as_read(self, name: str) -> SentAsRead | None:
        """How the rows of an exchange are sent without Spark; None: it has something to do with them."""
        sent = next(each for each in self.sent if each.facts.name == name)
        if sent.combining is not None:
            return None
        return sent_as_read(sent.frame, sent.facts.by, self._pipeline.layout.shuffle_partitions)


def sent_columns(frame: DataFrame, by: Sequence[str], shards: int) -> DataFrame:
    """A sender's rows with what tells where they go, and what their digest is made of.

    by: columns of the frame; without any, all rows are of shard 0.
    """
    return with_digest(frame, frame.schema, shard_of(by, shards))


def sent_together(combining: Combining, rows: DataFrame, by: Sequence[str], shards: int) -> MakeSent:
    """The same of combined rows, as a function of the batch frame that they are made of. rows: any frame that has their
    columns. What does not change from step to step is made once."""
    columns = [*map(named, rows.columns), *digest_of(rows.schema, shard_of(by, shards))]
    return lambda batch: combining.together(batch).select(*columns)


def with_digest(frame: DataFrame, hashed: StructType, *more: Column) -> DataFrame:
    """A frame with more columns, and those of which the digest of its rows is made. hashed: the columns that are in it."""
    return frame.select(*map(named, frame.columns), *digest_of(hashed, *more))


def digest_of(hashed: StructType, *before: Column) -> list[Column]:
    """Those columns, after others."""
    return [
        *before,
        *(column.alias(name) for name, column in zip(HASH_COLUMNS, digest_columns(hashed), strict=True)),
    ]


def check_sent(frame: DataFrame, name: str) -> None:
    """Raise ConfigurationError for a frame whose rows change after they were sent."""
    nodes = list(nodes_in(plan_of(frame)))
    names = {node.name for node in nodes}
    for node in nodes:
        if node.name == "Aggregate" and node.is_streaming and "EventTimeWatermark" not in names:
            keys = node.keys or ()
            raise ConfigurationError(
                f"exchange({name!r}): the frame {keys_text('groups by', keys)}, and a result that was sent would change "
                f"with each step: exchange the rows before that, with kcontrol.exchange(..., {by_text(keys)}), or have "
                "windows with a watermark, which are sent when they are closed"
            )


def _with_columns(frame: DataFrame, by: Sequence[Any], where: str) -> tuple[DataFrame, list[str]]:
    """The frame with each of `by` as a column, and their names."""
    if not by:
        return frame, []
    columns = [_given(frame, item, where) for item in by]
    picked = frame.select(*columns)
    names = picked.columns
    if len(names) != len(columns):
        raise ConfigurationError(
            f"{where}: by must be columns, each of which is one: it gives {', '.join(names)}"
        )
    if len({name.lower() for name in names}) < len(names):
        raise ConfigurationError(f"{where}: by names a column twice: {', '.join(names)}")
    there = {item.number for item in plan_of(frame).output}
    made = [
        (name, column)
        for name, column, item in zip(names, columns, plan_of(picked).output, strict=True)
        if item.number not in there
    ]
    known = {name.lower() for name in frame.columns}
    for name, _ in made:
        if name.lower() in known:
            raise ConfigurationError(
                f"{where}: by makes a column {name!r}, which the frame has already: give it another name with "
                ".alias(...)"
            )
    return (frame.select("*", *[column for _, column in made]) if made else frame), names


def _given(frame: DataFrame, item: Any, where: str) -> Column:
    if isinstance(item, Column):
        return item
    if not isinstance(item, str):
        raise ConfigurationError(
            f"{where}: by = {item!r}: must be the name of a column, an expression with a name, or a list of them"
        )
    return named(item) if item in frame.columns else sf.col(item)


def _check_names(frame: DataFrame, where: str) -> None:
    seen: set[str] = set()
    for name in frame.columns:
        lower = name.lower()
        if lower in _OWN:
            raise ConfigurationError(f"{where}: the name of column {name!r} is kcontrol's own: rename it")
        if lower in seen:
            raise ConfigurationError(f"{where}: the frame has two columns named {name!r}: rename or drop one")
        seen.add(lower)


def _caller() -> str:
    """File and line of who called into kcontrol."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_PACKAGE):
            return f"{frame.filename}, line {frame.lineno}"
    return ""
