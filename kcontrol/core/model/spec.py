"""The specification: what runs under a pipeline's name, as it was resolved when it was first submitted."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.exchanges import ExchangeSpec, WatermarkSpec
from kcontrol.core.model.words import BadRecords, LateRowsPolicy

SHARED_OUT = -1
"""In place of a node: the partitions are shared out among all of them."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One Kafka input as it was resolved when the pipeline was first submitted."""

    name: str
    topic: str
    topic_id: str
    start_offsets: tuple[int, ...]
    """By partition: where step 1 begins. Its length is the partition count."""
    node_of: tuple[int, ...]
    """By partition: the node that reads it."""
    value_format: str
    """'raw', 'json', 'avro', 'confluent-avro', 'confluent-json' or 'confluent-protobuf'."""
    on_bad_record: BadRecords
    dead_letter_output: str
    """Name of the output that receives bad records, or ''."""
    partitioned_by: str
    """Column by which equal keys always share a partition, or ''."""
    look_bytes_per_s: int = 4_194_304
    """So much of what arrives a node looks at, to tell offsets that hold no record from records."""
    node: int = SHARED_OUT
    """The one node that reads it; -1: its partitions are shared out."""
    value_schema: str = ""
    """What its values look like, as the definition says: for JSON Spark's DDL or JSON, for Avro its JSON; '': raw, or not
    known."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One Kafka output."""

    name: str
    topic: str
    topic_id: str
    partitions: int
    key: str
    """Column that becomes the record's key, or '' when rows bring their own `key` column or none."""
    value_format: str
    digest: str
    """'exact', 'count', or 'float:TOLERANCE'."""
    node: int = SHARED_OUT
    """The one node that writes it; -1: its partitions are shared out."""
    node_of: tuple[int, ...] = ()
    """By partition: the node that writes it, once the layout was changed; (): what follows from the number of nodes."""
    by_shard: bool = False
    """Whether several nodes put rows into the partition of their shard instead of that of their key. An older version's
    definition does not say so."""


@dataclass(frozen=True, slots=True)
class StepPolicySpec:
    """When a step is due and how much it holds."""

    min_records: int
    max_delay_ms: int
    max_records: int
    clock_ms: int
    """Period of the clock that makes steps of its own; 0: none."""
    late_rows: LateRowsPolicy = LateRowsPolicy.COUNT
    """Whether a step in which a watermark drops rows is committed, with their number, or halts the
    pipeline."""
    gaps_delay_ms: int = 60_000
    """Offsets that hold no record are passed over by a step of their own when there was no other for so
    long."""


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """What the layout of a step is computed from, together with its division."""

    max_tasks: int
    records_per_task: int
    shuffle_partitions: int


@dataclass(frozen=True, slots=True)
class LimitsSpec:
    """Deadlines and retries. Each is a number that a user can set; none is infinite."""

    max_attempts: int
    """Attempts that fail by the query, in a row, before the pipeline halts."""
    max_lost: int
    """Attempts that fail because a Spark task, worker or executor was lost, in a row, before the pipeline
    halts."""
    backoff_ms: int
    """Wait before the second attempt; doubles with each, up to `max_backoff_ms`."""
    max_backoff_ms: int
    heartbeat_timeout_ms: int
    """A node that says nothing for so long is dead."""
    open_timeout_ms: int
    """A node must have opened by then."""
    step_timeout_ms: int
    """An attempt must have been written by then. Less than `transaction_timeout_ms`."""
    replay_timeout_ms: int
    """A replaying node must have finished another step by then."""
    transaction_timeout_ms: int
    pin_timeout_ms: int
    """All nodes must hold fast what a checkpoint needs by then; the next step waits for it no longer."""
    save_timeout_ms: int
    """All nodes must have saved their parts of a checkpoint by then."""
    max_forgotten: int
    """Steps that are dropped from the log in one transaction, at most."""
    stop_save_timeout_ms: int = 120_000
    """A stop waits so long for the checkpoint of the last step; then it goes on without."""
    silence_timeout_ms: int = 60_000
    """A node that has said nothing for so long is told to end, so that whoever watches it starts it anew."""
    clock_tolerance_ms: int = 60_000
    """The time of a step is at most so much ahead of the log's timestamps, whatever the
    coordinator's wall clock shows."""


IN_WORK_DIR = "workdir:"
"""The location of checkpoints that each node saves beside its own working directory, wherever that is on its
host."""


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Where and how often checkpoints are made; location '' means none."""

    location: str
    every_ms: int
    keep: int
    keep_steps: int
    """Steps beyond the newest so many are dropped from the log once no kept checkpoint needs them; -1 keeps
    all."""
    shared: bool = False
    """Every host can read what is saved there; if not, only the host that has saved it is known to."""


@dataclass(frozen=True, slots=True)
class RebalanceSpec:
    """When the coordinator itself has state divided anew over the nodes."""

    every_ms: int
    """Between the end of one change of the layout and the beginning of the next one, at least."""
    when_percent: int
    """Of the mean: when a node has more state than that, it has too much."""
    checkpoints: int
    """In so many of them in a row a node has to have too much."""
    least_bytes: int
    """A node that has less than this beyond the mean does not have too much."""
    timeout_ms: int
    """How long a change may be prepared."""


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """`p/spec`: what runs under a pipeline's name."""

    pipeline: str
    fingerprint: str
    compatible_with: tuple[str, ...]
    """Fingerprints of earlier specs that this one may replace."""
    nodes: int
    queries: tuple[str, ...]
    stateful: bool
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    policy: StepPolicySpec
    layout: LayoutSpec
    limits: LimitsSpec
    checkpoint: CheckpointSpec
    exchanges: tuple[ExchangeSpec, ...] = ()
    stages: tuple[int, ...] = ()
    """By query: the stage of a step in which it runs; (): all in the first."""
    watermarks: tuple[WatermarkSpec, ...] = ()
    """Of every query with state and a watermark, where nodes share one; (): each node goes by its own."""
    assignment: int = 0
    """Number of the change of the layout that the nodes, owners and partitions here are of; 0: it was never changed."""
    owners: tuple[int, ...] = ()
    """By shard, the node that owns it; (): as they were dealt out first. `owners_of` says it for both."""
    kept_in_place: tuple[str, ...] = ()
    """Queries on several nodes whose state is of the partitions that a node reads, not of shards: it can't be moved."""
    rebalance: RebalanceSpec | None = None
    """None: state is divided anew when somebody asks for it, and else never."""

    @property
    def divides(self) -> bool:
        """Whether its nodes have something of each other: state, or rows that they send."""
        return self.stateful or bool(self.exchanges)
