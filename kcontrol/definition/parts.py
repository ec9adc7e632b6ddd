"""What a user writes down about a pipeline's inputs, outputs, steps, tasks, deadlines and checkpoints.

Frozen, checked when made, and free of Spark and Kafka: `definition_spec` turns them into the PipelineSpec
once the topics have been looked at. Durations are kept as they were written; the `_ms` properties give
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from pydantic import Field

from kcontrol.core.model import IN_WORK_DIR, BadRecords, CheckpointSpec
from kcontrol.definition.durations import Duration, PositiveDuration, duration_ms
from kcontrol.definition.errors import definition
from kcontrol.definition.schemas import check_schema, of_registry
from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import check_part_name, check_topic_name

_FLOAT_DIGEST = re.compile(r"float:(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)")

ValueFormat = Literal["json", "avro", "confluent-avro", "confluent-json", "confluent-protobuf"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Offset = Annotated[int, Field(ge=0)]

KEPT_STEPS = 1_000_000
"""At a step a second about eleven days: more than Kafka keeps a topic's records for by default, so that
the log of steps is not what ends a replay or a reader that was away; less than a segment of Kafka's
default size."""
_SHARED_SCHEMES = ("s3:", "hdfs:", "viewfs:")


@definition
class KafkaInput:
    """A Kafka topic that a pipeline reads.

    name: what queries call it. topic: where the records are.
    starting_offsets: where the first step begins: "earliest", "latest", or {partition: offset} (partitions
        that are not named begin at their earliest offset). Looked at once, when the pipeline is first
        started.
    value_format: "json", "avro", "confluent-avro", "confluent-json" or "confluent-protobuf" to have the value's fields as
        columns beside Kafka's own; None leaves `value` as it is. "confluent-..." is Avro, JSON or Protobuf behind the id of
        its schema in a registry, whose settings are in [schema_registry] of kcontrol.toml.
    schema: of the value. For JSON a DDL string ("carrier STRING, delay INT") or a StructType; for Avro the
        schema as a JSON string or a dictionary; for Protobuf the text of a .proto file, whose first message it is, or a
        class that protoc has made, or {"proto": either, "message": NAME}. With "confluent-avro" and "confluent-protobuf"
        values may be written by others: each is read by the schema of its id, and then as this one says.
    max_cells: an Avro or Protobuf value is bad if its arrays and maps unpack to more values of columns than
        this and 16 for each of its bytes.
    on_bad_record: what to do with a value that can't be parsed: "halt", "skip" (and count it in
    the boundary) or "dead_letter".
    dead_letter_topic: where bad records go, in the step's own transaction.
    partitioned_by: the column by which equal keys always share a partition; needed for keyed state on more
        than one node. With keyed outputs it means: by Kafka's murmur2 of its text, among as many partitions
        as each keyed output has, as Java's producer does; those of librdkafka do so only with
        partitioner=murmur2_random. The first records are checked.
    include_headers: adds the column `headers`.
    tombstones: records whose value is null, with a value_format: "keep" them as rows of which all fields are null, "drop"
        them, or "mark" all rows with a column `deleted`, which is true for them.
    look_bytes_per_s: so much of what arrives each node looks at, to tell offsets that hold no record (markers
        of transactions, aborted records, gaps of compaction) from records; what is beyond counts as records.
        Input that is busier than that goes over the wire once, other input twice.
    node: the one node that reads all of it, so that a query which reads nothing else needs no other node's
        rows. None: its partitions are shared out among the nodes.
    """

    name: str
    _: KW_ONLY
    topic: str
    starting_offsets: Literal["earliest", "latest"] | Mapping[Offset, Offset] = "earliest"
    value_format: ValueFormat | None = None
    schema: Any = None
    max_cells: Annotated[int, Field(ge=0, le=100_000_000)] = 1_000
    on_bad_record: Literal["halt", "skip", "dead_letter"] = "halt"
    dead_letter_topic: str | None = None
    partitioned_by: str | None = None
    include_headers: bool = False
    tombstones: Literal["keep", "drop", "mark"] = "keep"
    look_bytes_per_s: Annotated[int, Field(ge=1)] = 4_194_304
    node: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        check_part_name("input", self.name)
        where = f"KafkaInput {self.name!r}"
        check_topic_name(f"{where}: topic", self.topic)
        check_schema(where, self.value_format, self.schema, needed=True)
        if self.value_format is None and self.on_bad_record != "halt":
            raise ConfigurationError(
                f"{where}: on_bad_record = {self.on_bad_record!r} needs a value_format such as 'json': "
                "raw values are never bad"
            )
        if self.value_format is None and self.tombstones != "keep":
            raise ConfigurationError(
                f"{where}: tombstones = {self.tombstones!r} needs a value_format: without one, value is null for them"
            )
        if self.node is not None and self.partitioned_by is not None:
            raise ConfigurationError(
                f"{where}: node = {self.node} and partitioned_by = {self.partitioned_by!r} exclude each other: "
                "all keys of an input that one node reads are on that node, and of a shared one on several"
            )
        if (self.on_bad_record == "dead_letter") != (self.dead_letter_topic is not None):
            raise ConfigurationError(
                f"{where}: on_bad_record='dead_letter' and dead_letter_topic need each other; give both"
            )
        if self.dead_letter_topic is not None:
            check_topic_name(f"{where}: dead_letter_topic", self.dead_letter_topic)

    @property
    def bad_records(self) -> BadRecords:
        """`on_bad_record` as the protocol's word."""
        return BadRecords(self.on_bad_record)

    @property
    def dead_letter_output(self) -> str:
        """Name of the output that receives bad records, or ''. No user's output can have this name: it holds
        a dot."""
        return f"{self.name}.dead_letter" if self.dead_letter_topic is not None else ""


@definition
class KafkaOutput:
    """A Kafka topic that a pipeline writes.

    name: what queries call it. topic: where the records go; it must exist.
    value_format: None if rows bring Kafka's own columns (value, and key, headers, partition if wanted);
        "json", "avro", "confluent-avro", "confluent-json" or "confluent-protobuf" (Avro, JSON or Protobuf behind the id of
        its schema in a registry) to make the value of all columns, the key's too.
    key: the column that becomes the record's key (with a value_format only).
    schema: the Avro schema of the value; by default it follows from the frame. The Protobuf schema, as an input has it:
        that is needed, for its fields have numbers, which a frame's columns don't.
    digest: how the output's digest is made: "exact"; "count" (records only); or "float:1e-9" (numbers rounded
        to that relative tolerance). Shown in every boundary.
    compression: of the record batches.
    node: the one node that writes all of it, to which the others bring their rows. So it may have fewer
        partitions than there are nodes. None: its partitions are shared out among the nodes.
    partitioner: where rows with keys go on several nodes. "kafka": where any producer's would. "shard": behind an
        exchange, to the partition of the shard that they were brought together by, which the node that makes them
        writes itself; nobody else can tell the partition from the key.
    deleted_by: a column of type BOOLEAN; where it is true the record's value is null, which deletes its key for readers
        and for compaction. It is not part of the value.
    subject: under which a registry keeps the schema of "confluent-...", named after what: "topic" (TOPIC-value), "record"
        (the schema's full name) or "topic-record" (TOPIC-NAME), as Confluent's strategies of these names have it.
    register_schema: put the schema there when the pipeline starts and the subject does not have it. False: it must be
        there, or nothing starts.
    """

    name: str
    _: KW_ONLY
    topic: str
    value_format: ValueFormat | None = None
    key: str | None = None
    schema: Any = None
    digest: str = "exact"
    compression: Compression = "none"
    node: Annotated[int, Field(ge=0)] | None = None
    partitioner: Literal["kafka", "shard"] = "kafka"
    deleted_by: str | None = None
    subject: Literal["topic", "record", "topic-record"] = "topic"
    register_schema: bool = True

    def __post_init__(self) -> None:
        check_part_name("output", self.name)
        where = f"KafkaOutput {self.name!r}"
        check_topic_name(f"{where}: topic", self.topic)
        check_schema(where, self.value_format, self.schema, needed=self.value_format == "confluent-protobuf")
        if self.value_format in ("json", "confluent-json") and self.schema is not None:
            raise ConfigurationError(
                f"{where}: schema is for Avro and Protobuf; JSON is made of the frame's columns: leave it out"
            )
        if self.key is not None and self.value_format is None:
            raise ConfigurationError(
                f"{where}: key = {self.key!r} needs a value_format such as 'json'; without one, rows "
                "bring a column named key"
            )
        if self.deleted_by is not None and (self.key is None or self.deleted_by == self.key):
            raise ConfigurationError(
                f"{where}: deleted_by = {self.deleted_by!r} needs key=, another column: a null value deletes a key"
            )
        if not of_registry(self.value_format) and (self.subject != "topic" or not self.register_schema):
            raise ConfigurationError(
                f"{where}: subject and register_schema are for the formats confluent-..., and value_format = "
                f"{self.value_format!r}: leave them out"
            )
        if self.partitioner == "shard" and self.node is not None:
            raise ConfigurationError(
                f"{where}: partitioner='shard' shares its partitions out among the nodes, and node = {self.node} writes all of "
                "them: leave one of the two out"
            )
        tolerance = _FLOAT_DIGEST.fullmatch(self.digest)
        if self.digest not in ("exact", "count") and not (tolerance and 0 < float(tolerance[1]) < 1):
            raise ConfigurationError(
                f"{where}: digest = {self.digest!r}: must be 'exact', 'count' or 'float:TOLERANCE' such as "
                "'float:1e-9', with a tolerance between 0 and 1"
            )

    def subject_of(self, record: str) -> str:
        """The registry's subject of its values. record: the full name of their schema."""
        match self.subject:
            case "topic":
                return f"{self.topic}-value"
            case "record":
                return record
            case "topic-record":
                return f"{self.topic}-{record}"


@definition
class StepPolicy:
    """When a step is due, and how much it holds.

    min_records: due at once when so many have arrived, over all inputs and nodes: records that a step will
        read, as far as nodes have looked; what they have not looked at in busy input counts by offsets.
    max_delay: due when the first one has waited for so long since its node reported it, also while a step was
    made.
    max_records: a step never holds more offsets; of a larger backlog each partition gives its share. clock:
        makes steps of its own, with or without input, at this period.
    late_rows: what to do when a query's watermark drops rows: "count" them in the
    boundary, or "halt" without a commit.
    gaps_delay: due when nothing but offsets that hold no record has waited for so long, or for max_delay if
        that is longer. Shorter than the retention of each input: what has expired can't be told from records
        that were lost.
    """

    _: KW_ONLY
    min_records: Annotated[int, Field(ge=1)] = 1
    max_delay: Duration = "100 ms"
    max_records: Annotated[int, Field(ge=1)] = 1_000_000
    clock: PositiveDuration | None = None
    late_rows: Literal["count", "halt"] = "count"
    gaps_delay: PositiveDuration = "60 s"

    def __post_init__(self) -> None:
        if self.min_records > self.max_records:
            raise ConfigurationError(
                f"StepPolicy: min_records = {self.min_records} is more than max_records = "
                f"{self.max_records}: no step could ever be due"
            )

    @property
    def max_delay_ms(self) -> int:
        """`max_delay` in milliseconds."""
        return duration_ms(self.max_delay)

    @property
    def gaps_delay_ms(self) -> int:
        """`gaps_delay` in milliseconds."""
        return duration_ms(self.gaps_delay)

    @property
    def clock_ms(self) -> int:
        """`clock` in milliseconds; 0 without one."""
        return 0 if self.clock is None else duration_ms(self.clock)


@definition
class CheckpointPolicy:
    """Where checkpoints are put, how often, and how many are kept. A pipeline without state has nothing to put anywhere: its
    checkpoints only say where its log of steps may be read from, and drop what `keep_steps` does not keep.

    location: a URL or path that every node can write. None: `checkpoints` in the directory that each node
        works in, on its own host's disk.
    every: from the beginning of one to that of the next. keep: so many of the newest.
    keep_steps: steps beyond the newest so many are dropped from the log once no kept checkpoint needs them.
        None keeps all. "auto": 1,000,000 when checkpoints are on shared storage; all of them otherwise,
        because the log is then what the state is made from again if a disk is lost.
    shared: `location` is a directory that all hosts mount at the same place. S3 and HDFS
    are shared without being told.
    """

    location: Annotated[str, Field(min_length=1)] | None = None
    _: KW_ONLY
    every: PositiveDuration = "60 s"
    keep: Annotated[int, Field(ge=1, le=1_000)] = 2
    keep_steps: Annotated[int, Field(ge=0)] | Literal["auto"] | None = "auto"
    shared: bool = False

    def __post_init__(self) -> None:
        if self.shared and self.location in (None, IN_WORK_DIR):
            raise ConfigurationError(
                "Checkpoint: shared = True needs a location: without one each node saves on its own "
                "host's disk"
            )

    def to_spec(self) -> CheckpointSpec:
        """The same in numbers."""
        location = self.location or IN_WORK_DIR
        shared = self.shared or location.startswith(_SHARED_SCHEMES)
        keep_steps = self.keep_steps
        if keep_steps == "auto":
            keep_steps = KEPT_STEPS if shared else None
        return CheckpointSpec(
            location, self.every_ms, self.keep, -1 if keep_steps is None else keep_steps, shared
        )

    @property
    def every_ms(self) -> int:
        """`every` in milliseconds."""
        return duration_ms(self.every)


@definition
class TaskLayout:
    """How a step is cut into Spark tasks. Part of the step: it is recorded and used
    again on replay, on any machine.

    max_tasks: most source tasks of a step, and most writer tasks of an output. records_per_task: one more
    source task for each so many offsets. shuffle_partitions: of every shuffle and state store; while there is
    state, kcontrol layout --shards has to change it first.
    """

    _: KW_ONLY
    max_tasks: Annotated[int, Field(ge=1, le=10_000)] = 2
    records_per_task: Annotated[int, Field(ge=1)] = 50_000
    shuffle_partitions: Annotated[int, Field(ge=1, le=10_000)] = 2
