"""Every error a user can meet. Each message says what was wrong, where, and what to do.

The tree is small on purpose: a caller distinguishes what it can act on. `exit_code` is
what the command line ends with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcontrol.core.model import FailureKind


class KcontrolError(Exception):
    """Base of all errors raised by kcontrol."""

    exit_code = 1


class ConfigurationError(KcontrolError):
    """A setting, pipeline definition or option is wrong or missing; nothing was started."""

    exit_code = 2


class SparkSettingError(ConfigurationError):
    """A Spark setting that correctness needs is absent or has another value."""


class NotDeterministicError(ConfigurationError):
    """A query uses an expression that would give other rows when the step is run again."""


class SpecChangedError(ConfigurationError):
    """The pipeline's definition differs from the one its log was made with and the
    change is not declared compatible."""


class ClusterError(KcontrolError):
    """Kafka can't be reached, is too old, or refused what was asked."""

    exit_code = 3


class TopicError(ClusterError):
    """A topic is missing or has settings that kcontrol can't work with."""

    exit_code = 22


class AccessError(ClusterError):
    """Kafka refuses the credentials, or does not allow what is needed; another try is of no
    use before somebody grants it."""

    exit_code = 15


class JavaError(KcontrolError):
    """Java is missing or not a version that works."""

    exit_code = 4


class ArtifactError(KcontrolError):
    """The broker's jars could not be fetched, or one differs from its recorded SHA-256."""

    exit_code = 4


class FencedError(KcontrolError):
    """The transaction belongs to somebody newer: this attempt is over."""

    exit_code = 5


class RetriableError(KcontrolError):
    """Kafka could not do it now; the same call may succeed later."""

    exit_code = 3


class UnseenRecordError(RetriableError):
    """What was decided rests on a read that had not seen all of the log of steps; nothing of it was
    committed."""


class CommitUnknownError(KcontrolError):
    """A commit was asked for and its answer was lost: only reading the steps topic after fencing tells the
    outcome."""

    exit_code = 5


class StepFailedError(KcontrolError):
    """An attempt at a step failed; `kind` says whose fault it is."""

    exit_code = 6

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class DigestMismatchError(KcontrolError):
    """A step that was run again did not give what the log says."""

    exit_code = 7


class InputGoneError(KcontrolError):
    """Input that a step or a replay needs is no longer in Kafka."""

    exit_code = 8


class InputRefusedError(InputGoneError):
    """It may not be read from this host, or with what this process has to show; others may be allowed to."""


class HaltedError(KcontrolError):
    """The pipeline has halted and waits for a person."""

    exit_code = 9


class NotFoundError(KcontrolError):
    """There is no such pipeline, step or input."""

    exit_code = 10


class DamagedRecordError(KcontrolError):
    """Bytes in Kafka are not what their format says."""

    exit_code = 11


class UnknownRecordError(DamagedRecordError):
    """A whole record of a kind that only newer versions of kcontrol have: a reader may pass over it."""


class ReplacedError(KcontrolError):
    """A newer incarnation of this node, or a newer coordinator, has taken over; this process ends itself."""

    exit_code = 12


class LeftOutError(KcontrolError):
    """The layout was changed while the pipeline runs, and has no such node any more; this process ends itself."""

    exit_code = 20


class SparkLostError(KcontrolError):
    """The JVM of this process's Spark application has ended; a new incarnation of the node takes its
    place."""

    exit_code = 13


class HungError(SparkLostError):
    """A node's engine, or its event loop, does not answer: another incarnation has to take its place."""


class CheckpointError(KcontrolError):
    """A part of a checkpoint can't be written, is missing or is damaged."""

    exit_code = 14


class CheckpointDamagedError(CheckpointError):
    """A part of a checkpoint is not there, or not as it was written: another try will find the same."""


class CheckpointCancelledError(CheckpointError):
    """Saving a part of a checkpoint was given up because whoever wanted it said so."""


class DeliveryHaltedError(KcontrolError):
    """A delivery to a target outside of Kafka has halted and waits for a person."""

    exit_code = 16


class StepsVoidedError(KcontrolError):
    """Steps that a reader has taken were taken back by a reset of their pipeline. Whoever is told has to undo what it made of
    them; the reader can then go on with the step after the reset."""

    exit_code = 21

    def __init__(self, pipeline: str, to_step: int, reset: int, why: str) -> None:
        """reset: its number. The void steps are those between."""
        self.first, self.last, self.next_step, self.why = to_step + 1, reset - 1, reset + 1, why
        told = f" ({why})" if why else ""
        super().__init__(
            f"Pipeline {pipeline!r} was reset to step {to_step} by step {reset}{told}: steps {self.first} to {self.last} are "
            f"void, and some of them were read. Undo what was made of them, then go on after step {reset}."
        )


class CutsVoidedError(KcontrolError):
    """A cut that a reader has taken is void: its region was taken back to an older one. Whoever is told has to undo what it
    made of the cuts after that; the reader then goes on behind it."""

    exit_code = StepsVoidedError.exit_code

    def __init__(self, region: str, to_cut: int, taken: int) -> None:
        """to_cut: the one that counts. taken: the newest that was read."""
        self.to_cut, self.taken = to_cut, taken
        super().__init__(
            f"Region {region!r} was taken back to cut {to_cut}: those after it are void, and they were read up to {taken}. "
            f"Undo what was made of them, then go on after cut {to_cut}."
        )


class TargetAwayError(KcontrolError):
    """A delivery's target can't be reached or can't do it now; the same may succeed later."""

    exit_code = 17

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        """wait_s: so long the target has asked to be left alone."""
        super().__init__(message)
        self.wait_s = wait_s


class RegistryError(KcontrolError):
    """The registry of schemas refuses the credentials or a schema, or answers with what can't be used; another try is of
    no use before somebody has looked."""

    exit_code = 18


class RegistryAwayError(RegistryError):
    """The registry of schemas can't be reached or can't answer now; the same may succeed later."""

    exit_code = 19
