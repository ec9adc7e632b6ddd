"""A replay is held to the log: its input while it is read, everything else once all is known, and why it failed if it did."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcontrol.adapters.spark.attempt import Attempt
from kcontrol.adapters.spark.input_check import InputCheck
from kcontrol.core.differences import Difference, Part, differences, input_differences
from kcontrol.core.model import FailureKind, InputSlice, StepBoundary, StepResult, StepWork
from kcontrol.errors import KcontrolError, StepFailedError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """What a replay must give. compares: a difference ends it; False where the caller compares, and wants to know of all."""

    expected: StepBoundary
    part: Part
    compares: bool

    def of_input(self, work: StepWork) -> InputCheck | None:
        """For the attempt: judges the input while it is read."""
        return InputCheck(self.expected, self.part, work.layout.splits) if self.compares else None

    def result(self, attempt: Attempt, found: StepResult) -> None:
        """Raises StepFailedError (DIGEST), which ends the attempt, if anything that was found is not as in the log."""
        if self.compares:
            wrong = differences(self.expected, self.part, attempt.work, found)
            if wrong:
                raise attempt.fail(FailureKind.DIGEST, _first(wrong))

    def explain(self, error: StepFailedError, read: Callable[[], Sequence[InputSlice]]) -> None:
        """A query that fails where it once did not may have been given something else: then that is what is to be said.

        read: what the input was, as far as it is not known read again. Raises StepFailedError (DIGEST) if it differs.
        """
        if error.kind != FailureKind.QUERY:
            return
        try:
            found = read()
        except KcontrolError as unread:
            _log.warning("step %d: its input can't be compared with the log: %s", self.expected.step, unread)
            return
        wrong = input_differences(self.expected, self.part, found)
        if wrong:
            raise StepFailedError(FailureKind.DIGEST, f"{_first(wrong)}; with that its queries fail: {error}") from error


def _first(found: Sequence[Difference]) -> str:
    return f"{found[0]} (and {len(found) - 1} more differences)" if len(found) > 1 else str(found[0])
