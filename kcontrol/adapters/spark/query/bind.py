"""Binds a pipeline to a Spark session: its inputs as streaming frames, its queries as
frames ready for the writer tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.internals import (
    active_session,
    lacking_for_kept,
    plan_of,
    without_call_sites,
)
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.adapters.spark.query.checks import check_supported, no_streams_of_their_own, told_of
from kcontrol.adapters.spark.query.clock import follow_step
from kcontrol.adapters.spark.query.columns_used import columns_used
from kcontrol.adapters.spark.query.deliveries import with_deliveries
from kcontrol.adapters.spark.query.exchanged_watermark import delays_of, policy_of
from kcontrol.adapters.spark.query.exchanging import Exchanges, MakeSent, check_sent
from kcontrol.adapters.spark.query.grouping import Misplaced
from kcontrol.adapters.spark.query.lines import dead_lines, named_by_header, parsed_lines
from kcontrol.adapters.spark.query.once import SWITCHED_OFF, each_step, is_the_same, planning_of, why_not_once
from kcontrol.adapters.spark.query.once_with_state import why_not_with_state
from kcontrol.adapters.spark.query.outputs import output_plans, to_kafka_columns
from kcontrol.adapters.spark.query.parse import dead_letters, json_beside, parsed
from kcontrol.adapters.spark.query.placing import scattered
from kcontrol.adapters.spark.query.plan import PlanFacts, inspect
from kcontrol.adapters.spark.query.sharded import shard_columns
from kcontrol.adapters.spark.query.unread import columns_read, shown_of, with_unread
from kcontrol.adapters.spark.source.as_read import SentAsRead
from kcontrol.adapters.spark.source.data_source import (
    SENDING_SOURCE,
    SOURCE_NAME,
    KcontrolSource,
    showing,
    source_options,
)
from kcontrol.adapters.spark.source.exchange_source import ExchangeSource
from kcontrol.adapters.spark.source.registering import register
from kcontrol.core.model import BadRecords
from kcontrol.definition.exchanges import binding
from kcontrol.definition.files import FileInput
from kcontrol.definition.frames import FrameQuery, batch_frames
from kcontrol.definition.generated import GeneratedInput
from kcontrol.definition.inputs import Input
from kcontrol.definition.parts import KafkaInput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.schemas import schema_text
from kcontrol.errors import ConfigurationError

_ANOTHER = "it is another of batch frames"
_A_STREAM = "the application's own frame is a stream"


class Frames:
    """The frames of one pipeline in one session."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, address: ChannelAddress) -> None:
        register(spark, KcontrolSource, ExchangeSource)
        self._spark, self._pipeline, self._address = spark, pipeline, address
        self.exchanges = Exchanges(spark, pipeline, address)

    @without_call_sites()
    def read(self, name: str) -> DataFrame:
        """The streaming frame of an input: Kafka's columns and, with a value format, the value's fields
        beside them."""
        source = self._pipeline.input(name)
        return self._parsed(self._raw(source, source.include_headers), source)

    @without_call_sites()
    def read_batch(
        self, name: str, tasks: int, read: Mapping[str, frozenset[str]] = MappingProxyType({})
    ) -> DataFrame:
        """The same as a batch frame with so many tasks: its rows are those of whatever step it is run in. read: see
        `columns_read`; its other columns are null."""
        source = self._pipeline.input(name)
        return self._parsed(self._read(source, tasks, read), source)

    def _parsed(self, raw: DataFrame, source: Input) -> DataFrame:
        if isinstance(source, FileInput):
            return parsed_lines(raw, source)
        return parsed(raw, source, self._address) if isinstance(source, KafkaInput) else raw

    def _dead_letters(self, source: KafkaInput | FileInput, tasks: int = 0) -> DataFrame:
        raw = self._raw(source, with_headers=True, tasks=tasks)
        return (
            dead_lines(raw, source)
            if isinstance(source, FileInput)
            else dead_letters(raw, source, self._address)
        )

    def _raw(self, source: Input, with_headers: bool, tasks: int = 0, *, needed: bool = False) -> DataFrame:
        """tasks: of a batch frame; 0: a streaming one. needed: see `source_options`."""
        options = self._options(source, with_headers, tasks, needed=needed)
        reader = self._spark.read if tasks else self._spark.readStream
        return reader.format(SOURCE_NAME).options(**options).load()

    def _read(self, source: Input, tasks: int, read: Mapping[str, frozenset[str]]) -> DataFrame:
        options = self._options(source, source.include_headers, tasks, needed=False)
        columns = KcontrolSource(options).schema()
        shown = shown_of(columns, read, source.name)
        if shown is None:
            return self._raw(source, source.include_headers, tasks)
        frame = self._spark.read.format(SOURCE_NAME).options(**options, **showing(shown)).load()
        return with_unread(frame, columns)

    def _options(self, source: Input, with_headers: bool, tasks: int, *, needed: bool) -> dict[str, str]:
        randoms = source.randoms if isinstance(source, GeneratedInput) else None
        names = named_by_header(source) if isinstance(source, FileInput) else None
        placed, json = _placed_by(source), json_beside(source)
        return source_options(
            self._address, source.name, with_headers, placed, tasks, needed, randoms, names, json
        )

    def planned_once(self, bound: BoundQueries, streams: Sequence[FrameQuery]) -> BoundQueries:
        """The same queries, to be planned once where that can be; the others are left to Spark's streams, each by itself.

        streams: what the pipeline's functions gave for streaming frames; they are asked again, for batch frames.
        """
        if bound.exchanges:
            return self._kept_where_possible(bound)
        given = {item.name: item.frame for item in streams}
        whys = {
            query.name: self._why_not_kept(query)
            if query.stateful
            else why_not_once(query, given.get(query.name, query.frame))
            for query in bound.queries
        }
        without_state = [query for query in bound.queries if not query.stateful and not whys[query.name]]
        most = self._pipeline.layout.max_tasks
        refused, frames = "", dict[str, DataFrame | None]()
        if without_state:
            try:
                frames = self._batches(without_state, given, most)
            except ConfigurationError as error:
                refused = str(error)

        def again(name: str, tasks: int) -> DataFrame:
            frame = self._batches(without_state, given, tasks)[name]
            if frame is None:
                raise ConfigurationError(f"query {name!r}: {_ANOTHER}")
            return frame

        def decided(query: BoundQuery) -> BoundQuery | str:
            if query.stateful or whys[query.name]:
                return whys[query.name] or self._kept(query)
            frame = frames.get(query.name)
            if frame is None:
                return refused or _ANOTHER
            return replace(query, once=frame, once_of=partial(again, query.name), most_tasks=most)

        return _each_by_itself(bound, decided)

    def kept_as_given(self, bound: BoundQueries) -> BoundQueries:
        """The same queries, to be planned once where that can be without anybody being asked for batch frames, as those of an
        application that has made its own: where they have state."""
        if not self._pipeline.plan_once:
            return replace(bound, planning=each_step(SWITCHED_OFF))
        return self._kept_where_possible(bound)

    def _kept_where_possible(self, bound: BoundQueries) -> BoundQueries:
        """The same queries, each with its plan kept as one with state has it, so that nobody is asked for batch frames: of a
        pipeline that exchanges rows all that allow it, else those of them that have state."""

        def decided(query: BoundQuery) -> BoundQuery | str:
            if not bound.exchanges and not query.stateful:
                return _A_STREAM
            return self._why_not_kept(query) or self._kept(query)

        return _each_by_itself(bound, decided)

    def _why_not_kept(self, query: BoundQuery) -> str:
        return why_not_with_state(query) or self._lacking_for_kept

    @cached_property
    def _lacking_for_kept(self) -> str:
        return lacking_for_kept(self._spark)

    def _kept(self, query: BoundQuery) -> BoundQuery:
        letters = any(query.outputs == (self._letters_of(name),) for name in query.inputs)
        raw = self.exchanges.read_batch if query.exchanges else partial(self._raw_batch, letters)
        as_read = self.exchanges.as_read(query.sends) if query.sends else None
        sending = None if as_read is None else partial(self._sending, as_read)
        return replace(query, raw_of=raw, sending=sending, most_tasks=self._pipeline.layout.max_tasks)

    def _sending(self, sent: SentAsRead, tasks: int) -> DataFrame:
        """A batch frame without rows, whose tasks, so many, send what they read."""
        source = self._pipeline.input(sent.input)
        options = self._options(source, source.include_headers, tasks, needed=True)
        return self._spark.read.format(SENDING_SOURCE).options(**options, sends=sent.to_json()).load()

    def _letters_of(self, name: str) -> str:
        """The output that takes the bad records of an input; '' if none does."""
        source = self._pipeline.input(name)
        takes = isinstance(source, KafkaInput | FileInput) and source.bad_records is BadRecords.DEAD_LETTER
        return source.dead_letter_output if takes else ""

    def _raw_batch(self, with_headers: bool, name: str, tasks: int) -> DataFrame:
        """What takes the place of the stream of an input in a plan that is kept. with_headers: it needs to have them."""
        source = self._pipeline.input(name)
        return self._raw(source, with_headers or source.include_headers, tasks, needed=True)

    def _batches(
        self, queries: Sequence[BoundQuery], given: Mapping[str, DataFrame], tasks: int
    ) -> dict[str, DataFrame | None]:
        """By query, what the pipeline's functions give for batch frames with so many tasks, ready for the writer tasks; None
        where they do something else with their records than with those of streaming frames.

        Raises ConfigurationError if they refuse them.
        """
        try:
            with no_streams_of_their_own(), batch_frames(), binding(self.exchanges):
                read = columns_read(queries)
                again = self._pipeline.build(self._spark, partial(self.read_batch, tasks=tasks, read=read))
        except ConfigurationError as error:
            raise ConfigurationError(f"batch frames are refused: {error}") from None
        found = {item.name: item for item in again}
        return {query.name: self._batch_of(query, given.get(query.name), found, tasks) for query in queries}

    @without_call_sites()
    def _batch_of(
        self, query: BoundQuery, stream: DataFrame | None, batches: Mapping[str, FrameQuery], tasks: int
    ) -> DataFrame | None:
        if stream is None:
            source = self._pipeline.input(query.name.removesuffix(".dead_letter"))
            assert isinstance(source, KafkaInput | FileInput), "no other input has bad records"
            letters = self._dead_letters(source, tasks)
            return letters if is_the_same(query.frame, letters) else None
        item = batches.get(query.name)
        if item is None or (item.outputs, item.mode) != (query.outputs, query.mode):
            return None
        if not is_the_same(stream, item.frame):
            return None
        outputs = [self._pipeline.output(name) for name in item.outputs]
        return to_kafka_columns(item.frame, outputs, self._address)

    @without_call_sites()
    def bind(self, frames: Sequence[FrameQuery], allow_nondeterministic: bool = False) -> BoundQueries:
        """The queries to run: those of `frames`, and one for each input whose bad
        records go to a dead-letter topic.

        allow_nondeterministic: besides the pipeline's own.

        Raises ConfigurationError, NotDeterministicError.
        """
        self._pipeline.check_served(frames)
        allow_nondeterministic = allow_nondeterministic or self._pipeline.allow_nondeterministic
        bound: list[BoundQuery] = []
        warnings: list[str] = []
        one_executor = (self._spark.sparkContext.master or "").startswith("local[")
        for item in (*[sent.query() for sent in self.exchanges.sent], *frames):
            with told_of(item):
                facts = inspect(item.frame, item.name, allow_nondeterministic)
                if item.sends:
                    check_sent(item.frame, item.sends)
                check_supported(item.frame, item.mode, item.name)
                self.exchanges.check_read(item.frame, item.name)
                bound.append(self._bound(item, facts, *self._written(item)))
            if not one_executor:
                warnings += facts.warnings
        for source in self._pipeline.inputs:
            if isinstance(source, KafkaInput | FileInput) and source.bad_records is BadRecords.DEAD_LETTER:
                letters = self._dead_letters(source)
                item = FrameQuery(letters, "append", (source.dead_letter_output,))
                bound.append(self._bound(item, inspect(letters, item.name, allow_nondeterministic), letters))
        queries, deliveries = with_deliveries(self._pipeline, bound)
        exchanges = (*[sent.facts for sent in self.exchanges.sent], *deliveries)
        plans = [
            plan
            for item in frames
            for plan in output_plans(item.frame, [self._pipeline.output(name) for name in item.outputs])
        ]
        return BoundQueries(
            self._pipeline.name, queries, tuple(warnings), exchanges=exchanges, schemas=tuple(plans)
        )

    def _written(self, item: FrameQuery) -> tuple[DataFrame, MakeSent | None]:
        """A query's rows as its writer tasks get them, or what they are made of, and how."""
        frame = follow_step(item.frame)
        if item.sends:
            return self.exchanges.sending(item.sends, frame)
        outputs = [self._pipeline.output(name) for name in item.outputs]
        shard = shard_columns(item.frame, outputs, self._pipeline, self.exchanges.by_of(item.frame))
        return to_kafka_columns(frame, outputs, self._address, shard), None

    def _bound(
        self, item: FrameQuery, facts: PlanFacts, frame: DataFrame, make_sent: MakeSent | None = None
    ) -> BoundQuery:
        skipping = [
            name for name in facts.inputs if self._pipeline.input(name).bad_records is BadRecords.SKIP
        ]
        return BoundQuery(
            name=item.name,
            frame=frame,
            mode=item.mode,
            outputs=item.outputs,
            inputs=facts.inputs,
            narrow=facts.narrow,
            unkeyed=bool(item.sends) or not {"key", "partition"} & set(frame.columns),
            stateful_operators=facts.stateful_operators,
            has_watermark=facts.has_watermark,
            skipping=tuple(skipping),
            sources=facts.sources,
            scattered=() if facts.exchanges else self._scattered(item.frame),
            gathers=facts.gathers,
            regrouped=facts.regrouped,
            columns=columns_used(frame),
            stage=self.exchanges.stage_of(plan_of(item.frame), f"query {item.name!r}"),
            sends=item.sends,
            exchanges=tuple(dict.fromkeys(facts.exchanges)),
            where=item.where,
            delays_ms=delays_of(item.frame) if facts.has_watermark else (),
            make_sent=make_sent,
            policy=policy_of(self._spark),
        )

    def _scattered(self, frame: DataFrame) -> tuple[Misplaced, ...]:
        if self._pipeline.nodes == 1:
            return ()
        partitioned_by = {
            source.name: source.partitioned_by for source in self._pipeline.inputs if source.partitioned_by
        }
        return scattered(plan_of(frame), partitioned_by)


def _each_by_itself(bound: BoundQueries, decided: Callable[[BoundQuery], BoundQuery | str]) -> BoundQueries:
    """The same queries as they were decided on, and what is said of it.

    decided: the query as it is planned once, or why it isn't.
    """
    found = {query.name: decided(query) for query in bound.queries}
    whys = {name: each for name, each in found.items() if isinstance(each, str)}
    queries = tuple(query if isinstance(each := found[query.name], str) else each for query in bound.queries)
    return replace(bound, queries=queries, planning=planning_of(whys, len(queries)))


def _placed_by(source: Input) -> dict[str, str] | None:
    if source.partitioned_by is None:
        return None
    schema = schema_text(source.schema) if source.value_format == "avro" else ""
    return {"column": source.partitioned_by, "value_format": source.value_format or "raw", "schema": schema}


def bind(
    pipeline: Pipeline, spark: SparkSession, address: ChannelAddress, allow_nondeterministic: bool = False
) -> BoundQueries:
    """Call the functions of a pipeline file and bind what they return."""
    # PySpark says by it where a function was called, whichever thread has made the session.
    with active_session(spark):
        frames = Frames(spark, pipeline, address)
        with no_streams_of_their_own(), binding(frames.exchanges):
            queries = pipeline.build(spark, frames.read)
        bound = frames.bind(queries, allow_nondeterministic)
        if not pipeline.plan_once:
            return replace(bound, planning=each_step(SWITCHED_OFF))
        return frames.planned_once(bound, queries)
