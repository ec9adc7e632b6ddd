"""The enumerations: the states, reasons and kinds that records name."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a step was made."""

    RECORDS = "records"
    DELAY = "delay"
    CLOCK = "clock"
    REPLAY = "replay"
    WATERMARK = "watermark"
    SKIP = "skip"


class DesiredMode(StrEnum):
    """What the user wants of a pipeline."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class NodePhase(StrEnum):
    """What a node does: open at `step` and at rest; or running the step after it, first or again."""

    CLOSED = "closed"
    OPEN = "open"
    RUNNING = "running"
    FAILED = "failed"


class CommandKind(StrEnum):
    """What a coordinator can ask of a node."""

    CREATE = "create"
    OPEN = "open"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    PAUSE = "pause"
    STOP = "stop"
    SHUTDOWN = "shutdown"


class PipelinePhase(StrEnum):
    """What `p/status` says of a pipeline."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    HALTED = "halted"


class HoldPhase(StrEnum):
    """How far a pipeline is with a `Hold`."""

    NOTED = "noted"
    """Every later step goes by it."""
    HELD = "held"
    """All limits are reached, and no step is made."""
    RELEASED = "released"
    """It was taken note of that nothing is held any more."""
    GIVEN_UP = "given_up"
    """It was not renewed in time, and means nothing any more."""


class LayoutPhase(StrEnum):
    """How far a change of the layout is; after the last three nothing more becomes of the request."""

    WAITING = "waiting"
    """For all who are to be nodes."""
    COPYING = "copying"
    """State is brought to where it will be, while steps go on."""
    SWITCHING = "switching"
    """No step is made until the change is in the log."""
    DONE = "done"
    REFUSED = "refused"
    GIVEN_UP = "given_up"


class UpgradeWay(StrEnum):
    """How the processes of a pipeline that runs are replaced by others, node by node."""

    REPLACE = "replace"
    """By one wherever it is: what the node has is copied."""
    IN_PLACE = "in-place"
    """By one on the same host, in the same directory: nothing is copied."""
    OUT_IN = "out-in"
    """A node with the new code is added, and one with the old code removed, until none is left."""
    IN_OUT = "in-out"
    """The other way round, where there is no host to spare: first one is removed."""


class FailureKind(StrEnum):
    """Whose fault a failed attempt is; only QUERY and LOST count towards a halt."""

    QUERY = "query"
    """The user's code, data or settings: the same attempt would fail again."""
    LOST = "lost"
    """A Spark task, Python worker, executor or JVM died, a task was re-run behind our
    back, or a disk or a store failed."""
    FENCED = "fenced"
    """The attempt's producer epoch is no longer valid."""
    BROKER = "broker"
    """Kafka could not be reached or refused for a passing reason."""
    DIGEST = "digest"
    """A replay did not give what the log says: never retried, the pipeline halts."""
    INPUT_GONE = "input_gone"
    """Input that the step needs is no longer in Kafka: never retried, the pipeline halts."""
    DENIED = "denied"
    """Kafka does not allow it, or refuses the credentials: never retried, the pipeline halts."""
    REFUSED = "refused"
    """The input is not what the pipeline says that it is, or must not have: never retried, the pipeline
    halts."""


class WatermarkPolicy(StrEnum):
    """Which watermark of a query with several counts: Spark's `spark.sql.streaming.multipleWatermarkPolicy`."""

    MIN = "min"
    MAX = "max"


class LateRowsPolicy(StrEnum):
    """What to do when a query's watermark drops rows."""

    COUNT = "count"
    HALT = "halt"


class BadRecords(StrEnum):
    """What to do with an input record whose value can't be parsed."""

    HALT = "halt"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"
