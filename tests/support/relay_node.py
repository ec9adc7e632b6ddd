"""A node without Spark that passes records on: `python -m tests.support.relay_node BROKERS PREFIX PIPELINE`.

All of it is the product's own, its session, logs, watcher and writer, but for the engine (`bench/regions/relay.py`).
"""

from __future__ import annotations

import asyncio
import sys

from bench.regions.relays import lives
from kcontrol.settings.cluster import ClusterSettings

if __name__ == "__main__":
    servers, prefix, pipeline = sys.argv[1:]
    asyncio.run(lives(ClusterSettings(bootstrap_servers=servers, prefix=prefix), pipeline))
