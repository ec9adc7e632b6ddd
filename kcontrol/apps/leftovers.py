"""What is left of a pipeline that has no definition any more: a deletion that was ended half way."""

from __future__ import annotations

import logging
from functools import reduce

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.definitions import definitions
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import StepBoundary
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)

_OLD_MS = 30_000
"""How long brokers may give old answers, or be away."""


async def refuse_leftovers(settings: ClusterSettings, pipeline: str) -> None:
    """Of a pipeline without a definition: raises ConfigurationError if its log of steps is there and holds
    steps.

    To go on from them would be neither the old pipeline nor a new one: where its inputs begin would be
    decided anew.
    """
    step = await last_step(settings, pipeline)
    if step:
        topic = settings.names().steps_topic(pipeline)
        raise ConfigurationError(
            f"pipeline {pipeline!r} has no definition, but topic {topic!r} holds its steps up to {step}: it "
            f"was deleted half way. Run kcontrol delete {pipeline} to its end, then submit it again"
        )


async def refuse_half_deleted(settings: ClusterSettings, pipeline: str) -> None:
    """The same of a pipeline that may have a definition, and is then as it should be."""
    log = await KafkaControlLog.open(settings, pipeline)
    try:
        is_defined = pipeline in definitions(await log.read_to_end())
    finally:
        await log.close()
    if not is_defined:
        await refuse_leftovers(settings, pipeline)


async def last_step(settings: ClusterSettings, pipeline: str) -> int:
    """The last one in the pipeline's log of steps; 0 if there is none."""
    log = KafkaStepsLog(settings, pipeline)
    try:
        await log.begin_at_checkpoint()
        return max(
            (each.record.step for each in await log.read_to_end() if isinstance(each.record, StepBoundary)),
            default=0,
        )
    finally:
        await log.close()


async def committed(settings: ClusterSettings, pipeline: str, change: int = 0) -> StepsView:
    """What the pipeline's log of steps says, from the newest checkpoint on.

    change: of the layout, which it is known to hold; an answer without that is old, and another one is asked for. Raises
    DamagedRecordError, and RetriableError: there is no such answer.
    """

    async def read() -> StepsView:
        view = await _committed(settings, pipeline)
        number = 0 if view.assignment is None else view.assignment.number
        if number < change:
            raise RetriableError(
                f"pipeline {pipeline!r}: its definition is one by change {change} of its layout, and the log of steps was read "
                f"up to change {number} only"
            )
        return view

    return await until_deadline(read, "reading the steps topic", _log, _OLD_MS)


async def _committed(settings: ClusterSettings, pipeline: str) -> StepsView:
    log = KafkaStepsLog(settings, pipeline)
    try:
        newest = await log.begin_at_checkpoint()
        view = StepsView(pipeline) if newest is None else StepsView.begun_at(pipeline, newest)
        return reduce(evolve, await log.read_to_end(), view)
    finally:
        await log.close()
