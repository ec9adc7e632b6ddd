"""A pipeline that is deleted and made anew just when a delivery begins: between its look at the log and its first read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcontrol.apps.deletion import delete, look
from kcontrol.apps.deliver.delivery import Delivery
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.submit import submit
from kcontrol.core.step.following import LogFacts
from kcontrol.errors import DeliveryHaltedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import LakeLife, rows_of
from tests.integration.deliver.lives import OUTPUT, Until, log_of, outputs
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker

STEPS = 3


class _Remade(LogWatch):
    """After its second look, by which a delivery judges the log that it goes on with, the pipeline is made anew."""

    def __init__(self, maker: StepsMaker) -> None:
        super().__init__(maker.settings, PIPELINE)
        self._maker, self._looks = maker, 0

    def facts(self) -> LogFacts:
        found = super().facts()
        self._looks += 1
        if self._looks == 2:
            asyncio.run(_make_anew(self._maker))
            for step in range(1, STEPS + 1):
                self._maker.step(step, outputs(10 + step))
        return found


async def _make_anew(maker: StepsMaker) -> None:
    await delete(maker.settings, await look(maker.settings, PIPELINE))
    maker.spec = await submit(maker.settings, maker.pipeline, maker.queries)


def test_steps_of_the_other_pipeline_are_not_taken_for_the_next_ones(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    maker = log_of((1, 2), settings, topic_factory)
    life = LakeLife(maker.settings, "parquet", tmp_path / "rows", until=STEPS)
    progress = Until(STEPS)
    delivery = Delivery(
        *(maker.settings, PIPELINE, OUTPUT, life.target(), life.options, progress, _Remade(maker))
    )
    progress.stop = delivery.stop
    with pytest.raises(DeliveryHaltedError, match="the pipeline was deleted and made anew"):
        delivery.run()
    assert rows_of(life.kind, life.path, life.uri) == []
