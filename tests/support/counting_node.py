"""A node without Spark that counts what it passes on: `python -m tests.support.counting_node BROKERS PREFIX PIPELINE`, in whose
working directory it keeps its own.

All of it is the product's own, as `tests/support/relay_node.py` says, and so is what keeps its state
(`tests/support/counting_engine.py`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from bench.regions.relays import lives
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.settings.cluster import ClusterSettings
from tests.support.counting_engine import CountingEngine

WORK_DIR = "work"


def main(servers: str, prefix: str, pipeline: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(name)s: %(message)s")
    settings = ClusterSettings(bootstrap_servers=servers, prefix=prefix)
    topic = settings.names().steps_topic(pipeline)
    log_id = TopicAdmin(settings).get(topic, "the steps topic").topic_id
    work_dir = Path.cwd() / WORK_DIR
    asyncio.run(
        lives(settings, pipeline, lambda spec, life: CountingEngine(settings, spec, life, work_dir, log_id))
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
