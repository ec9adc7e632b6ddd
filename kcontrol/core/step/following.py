"""The rule for a target outside of Kafka that follows the log of steps: its last step against the log's next.

The commit of the boundary is the decision; a target is brought in line after it, in order of steps, by doing it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kcontrol.core.log.resets import Resets, next_after
from kcontrol.core.model import StepBoundary


class Guarantee(StrEnum):
    """What a target can say of each row of a committed step."""

    EXACTLY_ONCE = "exactly_once"
    """It is there once, whoever dies when: the target keeps the number of the step in its own transaction."""
    AT_LEAST_ONCE = "at_least_once"
    """It is there, perhaps more than once."""


class StepVerdict(StrEnum):
    """What is to be done with a step."""

    NEXT = "next"
    """Apply it."""
    DUPLICATE = "duplicate"
    """It is there: pass over it."""
    DIFFERENT = "different"
    """It is there, but with other contents than the log says."""
    GAP = "gap"
    """Steps between the target's last one and this one were not applied."""
    EXPIRED = "expired"
    """Steps that the target needs are no longer in the log."""
    FOREIGN = "foreign"
    """The target has steps of another log."""
    BEYOND = "beyond"
    """The target has steps that the log does not."""

    @property
    def halts(self) -> bool:
        """Whether a person has to decide."""
        return self not in (StepVerdict.NEXT, StepVerdict.DUPLICATE)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a target holds. step: the last one, 0 before the first. print: of that step, as `step_print` gives
    it; '' if it was not kept."""

    pipeline: str
    log_id: str
    step: int
    print: str = ""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A log of steps. log_id: the topic's id. first: the oldest step in it; last: the newest; 0 and 0 if there is
    none. resets: those in it, if they were looked for."""

    pipeline: str
    log_id: str
    first: int
    last: int
    resets: Resets = ()

    @property
    def oldest(self) -> int:
        """The first step that can be begun with: before one that is void there is none to stand behind."""
        return next_after(self.resets, self.first - 1)


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a step. verdict: NEXT if it was applied."""

    verdict: StepVerdict
    before: Applied
    rows: int = 0
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Of a record of an output."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"partition {self.partition}, offset {self.offset}"


PlacedRecords = Iterable[tuple[bytes | None, bytes | None, RecordPlace]]
"""Key, value and place of each, in order of partition and offset."""


def judge_log(applied: Applied, log: LogFacts) -> StepVerdict:
    """Whether the target can go on with this log: NEXT, or why not. EXPIRED is final only where `resets` were looked for: of
    steps that a reset has made void the target needs none."""
    if (applied.pipeline, applied.log_id) != (log.pipeline, log.log_id):
        return StepVerdict.FOREIGN
    if applied.step > log.last:
        return StepVerdict.BEYOND
    if next_after(log.resets, applied.step) < log.first:
        return StepVerdict.EXPIRED
    return StepVerdict.NEXT


def judge_step(applied: Applied, step: int, its_print: str, follows: int | None = None) -> StepVerdict:
    """What to do with a step of the target's own log. its_print: as `step_print` gives it. follows: the step before it, of
    those that are not void; None: the number before."""
    if step == applied.step and applied.print and applied.print != its_print:
        return StepVerdict.DIFFERENT
    if step <= applied.step:
        return StepVerdict.DUPLICATE
    return StepVerdict.NEXT if applied.step >= (step - 1 if follows is None else follows) else StepVerdict.GAP


def sentence(verdict: StepVerdict, where: str, applied: Applied, log: LogFacts, step: int = 0) -> str:
    """Why the delivery halts: what, where, what to do. step: the one that was judged, if one was."""
    match verdict:
        case StepVerdict.FOREIGN:
            return (
                f"{where} holds step {applied.step} of pipeline {applied.pipeline!r}, log {applied.log_id}; this log "
                f"is {log.log_id} of pipeline {log.pipeline!r}: the pipeline was deleted and made anew, or this is "
                "another cluster. Deliver to another target, or empty this one and begin again with --resync"
            )
        case StepVerdict.BEYOND:
            return (
                f"{where} holds step {applied.step}, but the log of pipeline {log.pipeline!r} ends with step "
                f"{log.last}: the log has lost steps or was taken back. Empty the target and begin again with "
                "--resync, or bring it back to a state of step "
                f"{log.last} or before"
            )
        case StepVerdict.EXPIRED:
            return (
                f"{where} holds step {applied.step} and needs step {next_after(log.resets, applied.step)} of pipeline "
                f"{log.pipeline!r}; the oldest in the log is {log.oldest} (keep_steps). Empty the target and begin again with "
                f"--resync --start {log.oldest} if what is missing may be"
            )
        case StepVerdict.GAP:
            return (
                f"{where} holds step {applied.step}, and the next one to apply is step {step}: steps "
                f"{applied.step + 1} to {step - 1} are missing in it. Was it restored from a backup? Start the "
                "delivery again, which reads from the target's last step on"
            )
        case StepVerdict.DIFFERENT:
            return (
                f"{where} was given step {step} of pipeline {log.pipeline!r} with other contents than the log has: "
                "look at it with kcontrol repair; empty the target and begin again with --resync"
            )
    raise ValueError(verdict)


def step_print(boundary: StepBoundary, output: str) -> str:
    """32 hexadecimal digits that say which records of an output a step has: their places, counts and digests."""
    slices = sorted(
        (each.partition, each.topic, each.from_, each.to, each.records, each.digest)
        for each in boundary.outputs
        if each.output == output
    )
    return hashlib.sha256(repr((boundary.step, slices)).encode()).hexdigest()[:32]
