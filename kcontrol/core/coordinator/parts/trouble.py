"""What went wrong: for the status, for when to try again, and for whether to go on at all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kcontrol.core.model import FailureKind, LimitsSpec
from kcontrol.core.retry import Retry, after_failure, must_halt


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong last, for the status."""

    kind: FailureKind
    text: str


@dataclass(frozen=True, slots=True)
class TroubleState:
    """None, as it is made."""

    failure: Failure | None = None
    """What is being retried."""
    retry: Retry = field(default_factory=Retry)
    halt: str = ""
    """Why the pipeline halted, '' if it has not."""

    def noted(self, kind: FailureKind, text: str) -> TroubleState:
        """For the status alone."""
        return replace(self, failure=Failure(kind, text))

    def passing(
        self, failure: Failure, counts_as: FailureKind, limits: LimitsSpec, now_ms: int
    ) -> TroubleState:
        """It passes by itself: tried again, each time later, and never a reason to halt."""
        return replace(self, failure=failure, retry=after_failure(self.retry, counts_as, limits, now_ms))

    def counted(self, kind: FailureKind, text: str, limits: LimitsSpec, now_ms: int) -> TroubleState:
        """Tried again later, or a halt if it was one too many."""
        retry = after_failure(self.retry, kind, limits, now_ms)
        halts = must_halt(retry, kind, limits)
        return TroubleState(
            Failure(kind, text),
            retry,
            f"{text}. Look for the cause, then resume the pipeline" if halts else self.halt,
        )

    def put_off(self, text: str, until_ms: int) -> TroubleState:
        """A broker that is behind: no count, for it is over as soon as the brokers agree."""
        return replace(
            self, failure=Failure(FailureKind.BROKER, text), retry=replace(self.retry, not_before_ms=until_ms)
        )

    def halted(self, why: str) -> TroubleState:
        """Until a person has looked; '' if there is no reason to."""
        return replace(self, halt=why)

    def refused(self, kind: FailureKind, text: str) -> TroubleState:
        """Nothing is tried until a person asks for it."""
        return replace(self, failure=Failure(kind, text), halt=text)

    def progressed(self) -> TroubleState:
        """A step was committed, or another tenure begins: nothing is retried. A halt stays."""
        return TroubleState(halt=self.halt)
