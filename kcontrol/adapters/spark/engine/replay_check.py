"""A replay is held to the log: its input while it is read, everything else once all is
known, and why it failed if it did."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.input_check import InputCheck
from kcontrol.core.model import (
    Environment,
    FailureKind,
    InputSlice,
    PipelineSpec,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.step.differences import Difference, NodePart, differences, input_differences, part_of
from kcontrol.core.step.environments import made_otherwise
from kcontrol.errors import KcontrolError, StepFailedError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """What a replay must give. compares: a difference ends it; False where the caller
    compares, and wants to know of all."""

    expected: StepBoundary
    part: NodePart
    compares: bool
    made_otherwise: str = ""
    """How what made the step differs from what runs it again; '' if it does not. It is named before any
    difference."""

    def of_input(self, work: StepWork) -> InputCheck | None:
        """For the attempt: judges the input while it is read."""
        return InputCheck(self.expected, self.part, work.layout.splits) if self.compares else None

    def result(self, attempt: AttemptLedger, found: StepResult) -> None:
        """Raises StepFailedError (DIGEST), which ends the attempt, if anything that was found is not as in
        the log."""
        if self.compares:
            wrong = differences(self.expected, self.part, attempt.work, found)
            if wrong:
                raise attempt.fail(FailureKind.DIGEST, self._told(_first(wrong)))

    def explain(self, error: StepFailedError, read: Callable[[], Sequence[InputSlice]]) -> None:
        """A query that fails where it once did not may have been given something else: then that is what is
        to be said. A difference that ended the attempt is said again with what the step was made with.

        read: what the input was, as far as it is not known read again. Raises
        StepFailedError (DIGEST) if it differs.
        """
        if error.kind is FailureKind.DIGEST and self.made_otherwise:
            raise StepFailedError(FailureKind.DIGEST, self._told(str(error))) from error
        if error.kind is not FailureKind.QUERY:
            return
        try:
            found = read()
        except KcontrolError as unread:
            _log.warning("step %d: its input can't be compared with the log: %s", self.expected.step, unread)
            return
        wrong = input_differences(self.expected, self.part, found)
        if wrong:
            what = self._told(f"{_first(wrong)}; with that its queries fail: {error}")
            raise StepFailedError(FailureKind.DIGEST, what) from error

    def _told(self, what: str) -> str:
        return f"{self.made_otherwise}: {what}" if self.made_otherwise else what


class Replays:
    """Of one node. environment: what it computes with; None: not known. compares: see `ReplayCheck`."""

    def __init__(
        self, spec: PipelineSpec, node: int, environment: Environment | None, compares: bool
    ) -> None:
        self._spec, self._node, self._environment, self._compares = spec, node, environment, compares
        self._said_otherwise = ""

    def check(self, expected: StepBoundary) -> ReplayCheck:
        """What a replay of this step must give. Warns when it was made with something else than before."""
        otherwise = made_otherwise(expected, self._node, self._environment)
        if otherwise.partition(" was ")[2] not in ("", self._said_otherwise):
            self._said_otherwise = otherwise.partition(" was ")[2]
            _log.warning("%s", otherwise)
        return ReplayCheck(expected, part_of(expected, self._spec, self._node), self._compares, otherwise)


def _first(found: Sequence[Difference]) -> str:
    return f"{found[0]} (and {len(found) - 1} more differences)" if len(found) > 1 else str(found[0])
