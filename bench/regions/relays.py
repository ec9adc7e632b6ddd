"""Nodes of several pipelines in one process, without Spark: `python -m bench.regions.relays BROKERS PIPELINE...`, until its
standard input is closed. What each reads it passes on (`bench/regions/relay.py`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping

from bench.regions.relay import RelayEngine
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.read.watcher import KafkaInputWatcher
from kcontrol.core.model import InputSpec, PipelineSpec
from kcontrol.errors import FencedError
from kcontrol.sessions.node import NodePorts, NodeSession
from kcontrol.sessions.ports import Engine
from kcontrol.settings.cluster import ClusterSettings

Engines = Callable[[PipelineSpec, int], Engine]
"""By a definition and the number of an incarnation."""


async def lives(settings: ClusterSettings, pipeline: str, engines: Engines | None = None) -> None:
    """Lives of node 0 of a pipeline that was submitted, one after the other. engines: makes one for each life; None: those
    that pass records on."""
    made = engines or (lambda spec, _: RelayEngine(settings, spec))
    while True:
        control, steps = await KafkaControlLog.open(settings, pipeline), KafkaStepsLog(settings, pipeline)

        def watch(
            item: InputSpec, from_: Mapping[int, int], takes: Callable[[int], bool], _last: object
        ) -> KafkaInputWatcher:
            return KafkaInputWatcher(settings, item.topic, from_, takes)

        ports = NodePorts(SystemClock(), control, steps, lambda spec, life, _: made(spec, life), watch)
        try:
            ended = await NodeSession(pipeline, 0, ports).run()
            sys.stdout.write(f"{pipeline}: a life has ended: {ended}\n")
        except FencedError as error:
            sys.stdout.write(f"{pipeline}: fenced: {error}\n")
        finally:
            await asyncio.gather(control.close(), steps.close())
        sys.stdout.flush()


async def _run(bootstrap_servers: str, *pipelines: str) -> None:
    settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
    working = [asyncio.create_task(lives(settings, name)) for name in pipelines]
    parent = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read))
    done, others = await asyncio.wait((*working, parent), return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
