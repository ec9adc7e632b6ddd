"""Both logs of one pipeline, for whoever looks at it once: read as far as asked, and folded."""

from __future__ import annotations

import asyncio

from kcontrol.core.model import Logged, LoggedStep
from kcontrol.sessions.ports import Clock, ControlLog, StepsLog
from kcontrol.views.life import is_doubtful
from kcontrol.views.pipeline_projection import PipelineProjection

LISTEN_EVERY_S = 0.1


class PipelineReader(PipelineProjection):
    """A projection with the readers that it is made by."""

    def __init__(self, pipeline: str, control: ControlLog, steps: StepsLog) -> None:
        super().__init__(pipeline)
        self.control = control
        self._steps = steps
        self._begun = False

    async def is_there(self) -> bool:
        """Read the control log on; whether the pipeline has been submitted."""
        await self._read_control()
        return self.view.spec() is not None

    async def is_heard(self, clock: Clock) -> bool:
        """Hear who speaks, as `listen` does, and read both logs on, the steps after all that tells of changes; whether the
        pipeline has been submitted."""
        if not await self.is_there():
            return False
        await self.listen(clock)
        await self.read_steps_on()
        return True

    async def read_control(self) -> None:
        """Read the control log on to its end, and nothing else. Raises NotFoundError
        when there is no such pipeline."""
        await self._read_control()
        self.spec()

    async def read(self) -> tuple[list[Logged], list[LoggedStep]]:
        """Read on to both ends; returns what is new. Raises NotFoundError when there is no such pipeline.

        Steps are read from the oldest checkpoint that is kept, if there is one.
        """
        records = await self._read_control()
        return records, await self.read_steps_on()

    async def read_steps_on(self) -> list[LoggedStep]:
        """The log of steps alone, on to its end; as `read`, after a look at the control log."""
        spec = self.spec()
        if not self._begun and spec.checkpoint.location:
            newest = await self._steps.begin_at_checkpoint()
            if newest is not None:
                self.begin_at(newest)
        self._begun = True
        steps = await self._steps.read_to_end()
        self.see_steps(steps)
        return steps

    async def listen(self, clock: Clock) -> None:
        """After a `read`: where the times in the log are no proof of life or death, hear for a few seconds
        who speaks."""
        while is_doubtful(self, clock.now_ms()):
            await asyncio.sleep(LISTEN_EVERY_S)
            await self._read_control()

    async def _read_control(self) -> list[Logged]:
        records = await self.control.read_to_end()
        self.see_control(records)
        self.signs.listen()
        return records
