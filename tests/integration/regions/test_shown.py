"""The metrics of a region whose log lies in Kafka, at the /metrics of a real `kcontrol serve`."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.adapters.kafka.regions.topics import ensure_region_log, ensure_regions_topic
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import Chain
from tests.support.processes import until
from tests.support.serving import client_of, serving
from tests.support.written_region import DEFINED, EXPECTED, shown_in, written_region


def test_a_server_shows_what_lies_in_kafka(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    chain = Chain(settings, tmp_path)
    chain.submit("a", [topic_factory("in")], topic_factory("out"))
    asyncio.run(_write(chain.settings))
    with serving(tmp_path) as process, closing(client_of(process)) as client:
        shown: list[dict[str, float]] = []

        def is_shown() -> bool:
            shown.append(shown_in(client.get("/metrics").text))
            return bool(shown[-1])

        until(is_shown, "the region is shown", 120, process.text)
        assert shown[-1] == EXPECTED


async def _write(settings: ClusterSettings) -> None:
    """As who defines it, and as its controller."""
    ensure_regions_topic(settings)
    ensure_region_log(settings, DEFINED.region)
    asked, log = KafkaAskedRegions(settings), KafkaRegionLog(settings, DEFINED.region)
    try:
        await asked.ask(DEFINED)
        await log.take()
        await log.write(written_region().changes)
    finally:
        await asyncio.gather(asked.close(), log.close())
