"""A committed step that is given piece by piece: larger than memory, and whole all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kcontrol.apps.step_records import OutputRecord, StepReader
from kcontrol.core.model import StepBoundary
from kcontrol.errors import ConfigurationError


class StreamedStep:
    """A committed step: its number, its time (what `current_timestamp()` was in it), and
    its boundary, as those of `Step`.

    Its records come from `chunks`, once. The step was taken when they have been iterated to their end, or
    `skip` was called: only then does the consumer go on to the next one.
    """

    def __init__(
        self, reader: StepReader, boundary: StepBoundary, taken: Callable[[], None], follows: int
    ) -> None:
        """taken: called once, when the step was taken. follows: the step before, of those that are not void."""
        self.number = boundary.step
        self.follows = follows
        self.now_ms = boundary.now_ms
        self.boundary = boundary
        self._taken = taken
        self._chunks = reader.chunks(boundary)
        self._begun = False
        self.is_taken = False
        self._left = False

    def chunks(self) -> Iterator[tuple[str, list[OutputRecord]]]:
        """The name of an output and some records of it, in order of output, partition and offset.

        All records are of the committed step. That none is missing or changed is known when the iteration has
        ended: keep what you make of them in a transaction, and commit that afterwards. Raises InputGoneError
        and DigestMismatchError, then at the end of the partition that they name; ConfigurationError: the
        chunks were asked for a second time, or the consumer has gone on.
        """
        if self._begun or self._left:
            why = "its consumer has gone on" if self._left else "its chunks have been asked for"
            raise ConfigurationError(
                f"step {self.number} of pipeline {self.boundary.pipeline!r} can't be read again: {why}"
            )
        self._begun = True
        return self._iterate()

    def _iterate(self) -> Iterator[tuple[str, list[OutputRecord]]]:
        try:
            for chunk in self._chunks:
                yield chunk
                if self._left:
                    raise ConfigurationError(
                        f"step {self.number} of pipeline {self.boundary.pipeline!r} can't be read on: "
                        "its consumer has gone on"
                    )
        finally:
            self._chunks.close()
        self.skip()

    def skip(self) -> None:
        """The rest of the step is not wanted: it counts as taken."""
        if not self.is_taken and not self._left:
            self.is_taken = True
            self._taken()

    def leave(self) -> None:
        """The consumer goes on without this: nothing is taken by it any more."""
        self._left = True
