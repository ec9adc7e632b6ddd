"""Both logs of one pipeline in Kafka, for commands that only look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.resets import is_known, resets_in
from kcontrol.core.model import LoggedStep, StepBoundary
from kcontrol.core.regions.cut import Place, written_up_to
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.reader import PipelineReader
from kcontrol.views.step_index import OffsetPlace, place_of
from kcontrol.wire.names import check_pipeline_name


class PipelineLogs(PipelineReader):
    """A reader of Kafka's logs, which can begin anywhere among the steps."""

    def __init__(self, pipeline: str, control: KafkaControlLog, steps: KafkaStepsLog) -> None:
        super().__init__(pipeline, control, steps)
        self.steps = steps
        self.own_control = control
        self.written: dict[Place, int] = {}
        """Of each partition that the steps wrote to which were read, the offset after the last record."""
        self.is_handed_on = False
        """The control log is read on, and closed, by somebody else."""

    def hand_on_control(self) -> KafkaControlLog:
        """The control log as far as it was read, for somebody who reads on and closes it."""
        self.is_handed_on = True
        return self.own_control

    def see_steps(self, records: Iterable[LoggedStep]) -> None:
        """As a projection, and where outputs end."""
        read = list(records)
        super().see_steps(read)
        self.written |= written_up_to(each.record for each in read if isinstance(each.record, StepBoundary))

    async def read_steps(self, first: int, last: int | None) -> list[LoggedStep]:
        """Both logs, the steps only from `first` on and up to `last` (None: all that are
        there), with some around them.

        Raises NotFoundError when there is no such pipeline.
        """
        await self._read_control()
        self.spec()
        self._begun = True
        await self.steps.begin_at_step(first)
        found = await (self.steps.read_to_end() if last is None else self.steps.read_through(last))
        self.see_steps(found)
        return found

    async def find_step(self, input_name: str, partition: int, offset: int) -> StepBoundary | None:
        """The step that read an offset or passed over it, however old it is; None if none has, or it was
        dropped.

        Looks from the newest to the oldest step by halving, and reads nothing on afterwards:
        only for whoever has read all.
        """
        steps = await self._not_void()
        low, high = 0, len(steps) - 1
        while low <= high:
            middle = (low + high) // 2
            boundary = await self._boundary(steps[middle])
            if boundary is None:
                return None
            place = place_of(boundary, input_name, partition, offset)
            if place is OffsetPlace.HERE:
                return boundary
            low, high = (middle + 1, high) if place is OffsetPlace.LATER else (low, middle - 1)
        return None

    async def _not_void(self) -> Sequence[int]:
        """The steps in the log of which each begins where the one before has ended."""
        first, last = self.committed.first, self.committed.step
        resets = resets_in(await self.resets())
        return [step for step in range(first, last + 1) if not is_known(resets, step)]

    async def resets(self) -> list[StepBoundary]:
        """All that are in the log; the steps are read on from its beginning afterwards. Only for whoever has read all."""
        if not self.committed.resets and not self.committed.resized:
            return []
        # Of resets before the oldest checkpoint nothing is known but that there may have been some.
        self.steps.begin_at_start()
        return await self.steps.read_resets()

    async def _boundary(self, step: int) -> StepBoundary | None:
        await self.steps.begin_at_step(step)
        found = (each.record for each in await self.steps.read_through(step))
        return next((each for each in found if isinstance(each, StepBoundary) and each.step == step), None)


@asynccontextmanager
async def pipeline_logs(
    cluster: ClusterSettings, pipeline: str, *, newest_only: bool = False
) -> AsyncIterator[PipelineLogs]:
    """The logs of a pipeline, unread. newest_only: for whoever needs to know how it is, and not how it came to be so: of the
    control log what compaction would leave. Raises TopicError when kcontrol was never used in the cluster."""
    check_pipeline_name(pipeline)
    control = await KafkaControlLog.open(cluster, pipeline, newest_only=newest_only)
    steps = KafkaStepsLog(cluster, pipeline)
    logs = PipelineLogs(pipeline, control, steps)
    try:
        yield logs
    finally:
        await asyncio.gather(steps.close(), *(() if logs.is_handed_on else (control.close(),)))
