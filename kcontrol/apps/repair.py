"""Lets a pipeline go on whose log of steps records something twice: shows it, and writes
down that a person accepts it."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.keys import accepted_key
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.doubles import Twice, doubles_of

_STEPS_PARTITION = 0


async def find_doubles(settings: ClusterSettings, pipeline: str) -> list[Twice]:
    """What the log of steps records twice. Raises TopicError when there is none;
    DamagedRecordError as `doubles_of` does."""
    log = KafkaStepsLog(settings, pipeline)
    try:
        return doubles_of(pipeline, await log.read_to_end())
    finally:
        await log.close()


async def accept_doubles(settings: ClusterSettings, pipeline: str, doubles: Sequence[Twice]) -> None:
    """Write a tombstone that says so into the log of steps: up to the newest of these doubles, and no
    further.

    Doing it twice does no harm. Compaction may remove it, together with the records that it speaks of.
    """
    offset = max(each.double.offset for each in doubles)
    appender = Appender(settings, settings.names().steps_topic(pipeline), _STEPS_PARTITION)
    try:
        await appender.append([(accepted_key(offset).encode(), None)])
    finally:
        await appender.close()
