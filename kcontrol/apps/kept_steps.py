"""The logs of a pipeline for whoever looks at it more than once: read on, not anew."""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.core.model import LoggedStep, StepBoundary


class KeptSteps:
    """logs: which the caller closes. since: boundaries of this step and later ones are kept; earlier ones are read again by
    whoever asks for them, for they may be many."""

    def __init__(self, logs: PipelineLogs, since: int) -> None:
        self.logs = logs
        self._since = since
        self._kept: dict[int, StepBoundary] = {}
        """By offset, in their order."""
        self._whole_from: int | None = None
        """Of this step and later ones all are kept; None: none was read yet."""

    async def read(self) -> None:
        """Both logs, on to their ends. Raises as `PipelineReader.read` does."""
        _, read = await self.logs.read()
        steps = _boundaries(read)
        if steps and self._whole_from is None:
            self._whole_from = max(self._since, next(iter(steps.values())).step)
        self._kept |= {offset: step for offset, step in steps.items() if step.step >= self._since}

    async def boundaries(self, first: int) -> list[StepBoundary]:
        """Of step `first` and all later ones that were read. Raises as `KafkaStepsLog` does."""
        earlier: dict[int, StepBoundary] = {}
        if self._whole_from is not None and first < self._whole_from:
            earlier = _boundaries(await self.logs.steps.read_again(first, self._whole_from - 1))
            if first <= self._since:
                known = {offset: step for offset, step in earlier.items() if step.step >= self._since}
                self._kept, self._whole_from = dict(sorted((known | self._kept).items())), self._since
        found = earlier | self._kept
        return [found[offset] for offset in sorted(found) if found[offset].step >= first]


def _boundaries(records: Iterable[LoggedStep]) -> dict[int, StepBoundary]:
    return {each.offset: each.record for each in records if isinstance(each.record, StepBoundary)}
