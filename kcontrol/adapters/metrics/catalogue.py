"""Every metric that there is: the one list that code, docs/metrics.md, dashboard and
alerts are made from or checked by.

Names and units follow Prometheus' conventions: base units in the name, `_total` for counters, times as
timestamps where the reader can take the difference itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.metrics.metric import Metric, MetricKind, Where, counter, gauge
from kcontrol.adapters.metrics.served import SERVED

STEP_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RECOVERY_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)


_DELIVERY = ("pipeline", "output", "target")
_PIPELINE, _INPUT, _NODE = ("pipeline",), ("pipeline", "input"), ("pipeline", "node")

READY = gauge(
    Where.SERVER, "kcontrol_ready", (), "1 when all logs have been read and Kafka can be reached, else 0."
)
PHASE = gauge(
    Where.SERVER,
    "kcontrol_pipeline_phase",
    ("pipeline", "phase"),
    "1 for the phase that the pipeline is in, 0 for the others; `unknown` if it ran, and no "
    "coordinator was heard of since.",
)
BROKEN = gauge(
    Where.SERVER,
    "kcontrol_pipeline_log_broken",
    _PIPELINE,
    "1 for a pipeline whose log of steps can't be read.",
)
STEPS = counter(
    Where.SERVER,
    "kcontrol_steps_total",
    ("pipeline", "reason"),
    "Steps committed since this process had read the log.",
)
COMMITTED_STEP = gauge(
    Where.SERVER, "kcontrol_committed_step", _PIPELINE, "Number of the last committed step."
)
STEP_TIMESTAMP = gauge(
    Where.SERVER,
    "kcontrol_step_timestamp_seconds",
    _PIPELINE,
    "When the last step was committed, by the coordinator's clock.",
)
TRANSACTION_OPEN = Metric(
    "kcontrol_transaction_open_seconds",
    MetricKind.HISTOGRAM,
    Where.SERVER,
    _PIPELINE,
    "From the opening of a committed step's transaction to its commit.",
    STEP_BUCKETS_S,
)
RECORDS_IN = counter(Where.SERVER, "kcontrol_records_in_total", _INPUT, "Records read by committed steps.")
RECORDS_OUT = counter(
    Where.SERVER, "kcontrol_records_out_total", ("pipeline", "output"), "Records written by committed steps."
)
RECORDS_SKIPPED = counter(
    Where.SERVER,
    "kcontrol_records_skipped_total",
    _INPUT,
    "Records left out because they could not be parsed and the input says so.",
)
LATE_ROWS = counter(
    Where.SERVER,
    "kcontrol_late_rows_total",
    ("pipeline", "query"),
    "Rows that a query's watermark has dropped in committed steps, because they came too late.",
)
OFFSETS_SKIPPED = counter(
    Where.SERVER,
    "kcontrol_offsets_skipped_total",
    _INPUT,
    "Offsets that committed steps have passed over at a user's request (kcontrol skip).",
)
INPUT_PAUSED = gauge(
    Where.SERVER,
    "kcontrol_input_paused",
    _INPUT,
    "1 while no step shall read the input, at a user's request, else 0.",
)
LAG_RECORDS = gauge(
    Where.SERVER,
    "kcontrol_input_lag_records",
    _INPUT,
    "Records that are in Kafka but not in a committed step, at most: offsets, less those that are "
    "known to hold no record.",
)
LAG_SECONDS = gauge(
    Where.SERVER,
    "kcontrol_input_lag_seconds",
    _INPUT,
    "For how long the oldest input that is not in a committed step has been known to its node, or to this "
    "process; 0 if there is none.",
)
LAG_KNOWN = gauge(
    Where.SERVER,
    "kcontrol_input_lag_known",
    _INPUT,
    "1 while Kafka says how far the input reaches, 0 while only what nodes have said counts.",
)
REPLAY_INPUT_LEFT = gauge(
    Where.SERVER,
    "kcontrol_replay_input_left_records",
    _INPUT,
    "Offsets that Kafka still has before the first one that a replay, or else the next step, needs, of the "
    "partition with the fewest; negative: so many are gone. Absent while it is not known.",
)
REPLAY_INPUT_EXPIRING = gauge(
    Where.SERVER,
    "kcontrol_replay_input_expiring",
    _INPUT,
    "1 while retention.ms is about to take input that a replay, or else the next step, needs, else 0. "
    "Absent while it is not known.",
)
NODE_STEP = gauge(Where.SERVER, "kcontrol_node_step", _NODE, "The last step that the node holds complete.")
REPLAY_LEFT = gauge(
    Where.SERVER,
    "kcontrol_node_replay_left_steps",
    _NODE,
    "Committed steps that the node has still to replay; 0 if none. Absent while the node is silent.",
)
NODE_HEARD = gauge(
    Where.SERVER,
    "kcontrol_node_heard_timestamp_seconds",
    _NODE,
    "When the node's newest incarnation was last heard of, by this process's clock.",
)
CHECKPOINT_STEP = gauge(Where.SERVER, "kcontrol_checkpoint_step", _PIPELINE, "Step of the newest checkpoint.")
CHECKPOINT_TIMESTAMP = gauge(
    Where.SERVER,
    "kcontrol_checkpoint_timestamp_seconds",
    _PIPELINE,
    "When the newest checkpoint was recorded: its age is time() minus this.",
)
CHECKPOINT_SIZE = gauge(
    Where.SERVER,
    "kcontrol_checkpoint_size_bytes",
    _PIPELINE,
    "Bytes of the newest checkpoint, over all nodes, shared files included.",
)
CHECKPOINT_DURATION = gauge(
    Where.SERVER,
    "kcontrol_checkpoint_duration_seconds",
    _PIPELINE,
    "From the command to the nodes to the record of the newest checkpoint.",
)
CLOCK_DIFFERENCE = gauge(
    Where.SERVER,
    "kcontrol_clock_difference_seconds",
    _PIPELINE,
    "The coordinator's wall clock less the time that steps go by, if they differ by more than half of "
    "clock_tolerance.",
)
SCHEMAS = gauge(
    Where.SERVER,
    "kcontrol_schemas",
    (*_PIPELINE, "use"),
    "Schemas of a schema registry that the log holds: of use `input`, which values of inputs name, and `output`.",
)
CHECKPOINT_FAILED = gauge(
    Where.SERVER,
    "kcontrol_checkpoint_failed",
    _PIPELINE,
    "1 if the last try at a checkpoint was given up, else 0.",
)
CLAIM_EPOCH = gauge(Where.SERVER, "kcontrol_claim_epoch", _PIPELINE, "The epoch: offset of the newest claim.")
COORDINATOR = gauge(
    Where.SERVER,
    "kcontrol_coordinator_info",
    ("pipeline", "host", "process_id"),
    "1 for the coordinator that has made the newest claim.",
)
COORDINATED = gauge(
    Where.SERVER,
    "kcontrol_pipeline_coordinated",
    _PIPELINE,
    "1 while a coordinator of the pipeline is heard of, else 0.",
)
COORDINATOR_HEARD = gauge(
    Where.SERVER,
    "kcontrol_coordinator_heard_timestamp_seconds",
    _PIPELINE,
    "When the coordinator was last heard of, by this process's clock; it speaks every two seconds.",
)
REJECTED = counter(
    Where.SERVER,
    "kcontrol_control_records_rejected_total",
    ("reason",),
    "Records of the control topic that were left out, since the topic's beginning as this process has read "
    "it: unreadable, unknown (of a newer version) or misplaced.",
)
ACTIVE = gauge(
    Where.COORDINATOR,
    "kcontrol_coordinator_active",
    _PIPELINE,
    "1 while this process is in charge of the pipeline.",
)
COORDINATOR_PHASE = Metric(
    "kcontrol_coordinator_phase_seconds",
    MetricKind.HISTOGRAM,
    Where.COORDINATOR,
    ("pipeline", "phase"),
    "Time in each phase of a step, as the coordinator sees it: fencing, reading, adding (partitions to the "
    "transaction), attempting (the nodes work), committing.",
    STEP_BUCKETS_S,
)
TRANSACTION_OPENED = gauge(
    Where.COORDINATOR,
    "kcontrol_coordinator_transaction_opened_timestamp_seconds",
    _PIPELINE,
    "When the transaction of the attempt that is under way was opened; 0 while there is none.",
)
ATTEMPTS = counter(
    Where.COORDINATOR, "kcontrol_attempts_total", _PIPELINE, "Attempts at steps that were begun."
)
ABORTED = counter(
    Where.COORDINATOR,
    "kcontrol_attempts_aborted_total",
    ("pipeline", "reason"),
    "Attempts that were not committed: query, lost, fenced, broker, digest, input_gone, or replaced by "
    "another coordinator.",
)
RECOVERY = Metric(
    "kcontrol_recovery_seconds",
    MetricKind.HISTOGRAM,
    Where.COORDINATOR,
    ("pipeline", "cause"),
    "takeover: from the beginning of a coordinator's session until all nodes are in place; attempt: from "
    "an aborted attempt until its step is committed. What a halt, pause or stop interrupts is not counted.",
    RECOVERY_BUCKETS_S,
)
NODE_PHASE_SECONDS = Metric(
    "kcontrol_node_step_phase_seconds",
    MetricKind.HISTOGRAM,
    Where.NODE,
    ("pipeline", "node", "phase"),
    "Time in each phase of a step, as its node sees it: written (Spark reads, computes and writes), "
    "committed (waiting for the boundary), recorded (Spark's own logs).",
    STEP_BUCKETS_S,
)
NODE_REPLAYED = counter(
    Where.NODE,
    "kcontrol_node_replayed_steps_total",
    _NODE,
    "Steps that this incarnation of the node has replayed.",
)

DELIVERY_STATE = gauge(
    Where.DELIVERY,
    "kcontrol_delivery_state",
    (*_DELIVERY, "guarantee", "state"),
    "1 for the state that the delivery is in, 0 for the others: starting, standing_by (another process has it), "
    "running, away (the target or Kafka can't be reached), stopped or halted. guarantee: exactly_once or at_least_once.",
)
DELIVERED_STEP = gauge(
    Where.DELIVERY,
    "kcontrol_delivered_step",
    _DELIVERY,
    "The last step that the target holds; -1: not known yet.",
)
DELIVERY_LAG_STEPS = gauge(
    Where.DELIVERY,
    "kcontrol_delivery_lag_steps",
    _DELIVERY,
    "Steps that are committed and not in the target.",
)
DELIVERY_LAG_SECONDS = gauge(
    Where.DELIVERY,
    "kcontrol_delivery_lag_seconds",
    _DELIVERY,
    "Since the oldest step that is not in the target was committed; 0 if there is none.",
)
DELIVERED_STEPS = counter(
    Where.DELIVERY, "kcontrol_delivered_steps_total", _DELIVERY, "Steps that this process has applied."
)
DELIVERED_ROWS = counter(
    Where.DELIVERY, "kcontrol_delivered_rows_total", _DELIVERY, "Rows that this process has written."
)
DELIVERY_BAD_ROWS = counter(
    Where.DELIVERY,
    "kcontrol_delivery_bad_rows_total",
    _DELIVERY,
    "Records that were left out because they are no rows of the target (--on-bad-row skip).",
)
DELIVERY_ERRORS = counter(
    Where.DELIVERY, "kcontrol_delivery_errors_total", _DELIVERY, "Tries that failed, and halts."
)

CLUSTER_MEMBERS = gauge(
    Where.SERVER, "kcontrol_cluster_members", (), "Agents that are members of the cluster of agents."
)
CLUSTER_SLOTS = gauge(
    Where.SERVER, "kcontrol_cluster_slots", (), "Nodes that its members may run, drained ones left out."
)
CLUSTER_SLOTS_USED = gauge(Where.SERVER, "kcontrol_cluster_slots_used", (), "Nodes that are placed.")
CLUSTER_JOBS = gauge(
    Where.SERVER, "kcontrol_cluster_jobs", ("state",), "Jobs that the cluster remembers, by state."
)
CLUSTER_JOB_WAITS = gauge(
    Where.SERVER, "kcontrol_cluster_job_waits", _PIPELINE, "1 for an active job that does not run, else 0."
)
CLUSTER_OFFSET = gauge(
    Where.SERVER, "kcontrol_cluster_offset", (), "Offset of the newest entry of the cluster's log."
)
CLUSTER_SNAPSHOT = gauge(
    Where.SERVER,
    "kcontrol_cluster_snapshot_offset",
    (),
    "Offset of the newest confirmed snapshot of the cluster's value; -1 if there is none.",
)
CLUSTER_BEHIND = gauge(
    Where.SERVER,
    "kcontrol_cluster_agent_behind_entries",
    ("agent",),
    "Entries that the agent had not applied when it was heard last.",
)
CLUSTER_DIFFERS = gauge(
    Where.SERVER,
    "kcontrol_cluster_agent_differs",
    ("agent",),
    "Agents that have made another value of the cluster's log than this one; 0 if all agree.",
)


def _region(name: str, text: str, *labels: str) -> Metric:
    return gauge(Where.SERVER, f"kcontrol_region_{name}", ("region", *labels), text)


REGION_STATE = _region("state", "1 for the state that the region is in, 0 for the others.", "state")
REGION_STATE_NUMBER = _region("state_number", "The same as a number, from 0 (started) to 7, as listed there.")
REGION_LAST_COMPLETED = _region("last_completed_id", "Number of the newest cut; 0 if there is none.")
REGION_DRAIN_AVERAGE = _region("drain_seconds_average", "How long the newest ten drains took.")
REGION_RESET_AVERAGE = _region("reset_seconds_average", "How long the newest ten resets took.")
REGION_LAST_CONSISTENT = _region("last_consistent_timestamp_seconds", "When the newest cut was made.")
REGION_LAST_RESET = _region("last_reset_timestamp_seconds", "When the newest reset came to its end.")
REGION_DRAIN_ID = _region("last_drain_id", "Number of the newest drain that began.")
REGION_RESET_ID = _region("last_reset_id", "Number of the cut at which the newest reset was made.")
REGION_ATTEMPTS = _region("reset_attempts", "Tries at a reset since the newest cut.")
REGION_PERIOD = _region(
    "drain_period_seconds",
    "From the end of one drain, or reset, to the beginning of the next; 0 where drains are made only when somebody asks, and "
    "while pipelines are held at a cut.",
)
REGION_AWAITED = _region(
    "cut_awaited_timestamp_seconds",
    "Since when the next cut is awaited: when the newest was made, the region was defined as it is, or its pipelines were let "
    "go on, whichever was last.",
)
REGION_HEARD = _region(
    "controller_heard_timestamp_seconds",
    "When whoever is in charge was last heard of, by its own clock; it speaks every three seconds. 0: nobody ever was.",
)

CATALOGUE: Sequence[Metric] = (
    *(READY, PHASE, BROKEN, STEPS, COMMITTED_STEP, STEP_TIMESTAMP, TRANSACTION_OPEN),
    *(RECORDS_IN, RECORDS_OUT, RECORDS_SKIPPED),
    *(CLUSTER_MEMBERS, CLUSTER_SLOTS, CLUSTER_SLOTS_USED, CLUSTER_JOBS, CLUSTER_JOB_WAITS),
    *(CLUSTER_OFFSET, CLUSTER_SNAPSHOT, CLUSTER_BEHIND, CLUSTER_DIFFERS),
    *(REGION_STATE, REGION_STATE_NUMBER, REGION_LAST_COMPLETED, REGION_DRAIN_AVERAGE, REGION_RESET_AVERAGE),
    *(REGION_LAST_CONSISTENT, REGION_LAST_RESET, REGION_DRAIN_ID, REGION_RESET_ID, REGION_ATTEMPTS),
    *(REGION_PERIOD, REGION_AWAITED, REGION_HEARD),
    *(LATE_ROWS, OFFSETS_SKIPPED, INPUT_PAUSED, REPLAY_INPUT_LEFT, REPLAY_INPUT_EXPIRING),
    *(
        LAG_RECORDS,
        LAG_SECONDS,
        NODE_STEP,
        REPLAY_LEFT,
        NODE_HEARD,
        CHECKPOINT_STEP,
        CHECKPOINT_TIMESTAMP,
        CHECKPOINT_SIZE,
    ),
    *(CHECKPOINT_DURATION, CHECKPOINT_FAILED, CLAIM_EPOCH, COORDINATOR, COORDINATED, COORDINATOR_HEARD),
    *(LAG_KNOWN, CLOCK_DIFFERENCE, SCHEMAS, REJECTED),
    *(ACTIVE, COORDINATOR_PHASE, TRANSACTION_OPENED, ATTEMPTS, ABORTED, RECOVERY),
    *(NODE_PHASE_SECONDS, NODE_REPLAYED),
    *(DELIVERY_STATE, DELIVERED_STEP, DELIVERY_LAG_STEPS, DELIVERY_LAG_SECONDS),
    *(DELIVERED_STEPS, DELIVERED_ROWS, DELIVERY_BAD_ROWS, DELIVERY_ERRORS),
    *SERVED,
)
