"""One of three brokers hangs (SIGSTOP), whatever its part: steps go on while it does, and
the oracle finds nothing wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.wire.names import control_partition
from tests.integration.recovery import PATIENCE_S, Stage, stage

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.heavy]


@pytest.fixture(scope="module")
def running(cluster3: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One pipeline for all tests: its Spark starts once."""
    with stage(cluster3.bootstrap_servers, tmp_path_factory.mktemp("hung"), "hung") as made:
        made.coordinator()
        made.node().says("joins", PATIENCE_S)
        made.orders.produce(20)
        made.until_step(1)
        yield made


def _steps_leader(cluster: EmbeddedCluster, stage: Stage) -> int:
    return cluster.leader(cluster.settings.names().steps_topic(stage.orders.name))


def _control_leader(cluster: EmbeddedCluster, stage: Stage) -> int:
    topic = cluster.settings.names().control_topic()

    async def partitions() -> int:
        rpc = KafkaRpc(cluster.settings)
        try:
            return len((await rpc.topic(topic)).leaders)
        finally:
            await rpc.close()

    return cluster.leader(topic, control_partition(stage.orders.name, asyncio.run(partitions())))


def _transaction_coordinator(cluster: EmbeddedCluster, stage: Stage) -> int:
    async def ask() -> int:
        rpc = KafkaRpc(cluster.settings)
        try:
            return await rpc.transaction_coordinator(
                cluster.settings.names().transactional_id(stage.orders.name)
            )
        finally:
            await rpc.close()

    return asyncio.run(ask())


def _group_coordinator(cluster: EmbeddedCluster, stage: Stage) -> int:
    async def ask() -> int:
        rpc = KafkaRpc(cluster.settings)
        try:
            return await rpc.group_coordinator(cluster.settings.names().coordinator_group())
        finally:
            await rpc.close()

    return asyncio.run(ask())


PARTS: dict[str, Callable[[EmbeddedCluster, Stage], int]] = {
    "steps": _steps_leader,
    "control": _control_leader,
    "transactions": _transaction_coordinator,
    "group": _group_coordinator,
    "input": lambda cluster, stage: cluster.leader(stage.orders.topic("orders")),
    "output": lambda cluster, stage: cluster.leader(stage.orders.topic("totals")),
    "controller": lambda cluster, _: cluster.controller(),
}


@pytest.mark.parametrize("part", PARTS)
def test_steps_go_on_while_the_broker_hangs(
    part: str, whole_cluster3: EmbeddedCluster, running: Stage
) -> None:
    hung = whole_cluster3.brokers[PARTS[part](whole_cluster3, running)]
    step = running.orders.status()["step"]
    hung.pause()
    began_ms = time.time() * 1_000
    running.orders.produce(20)
    produced_s = time.time() - began_ms / 1_000
    running.until_step(step + 1)
    running.until_done(f"all is committed while the broker of {part} hangs")
    assert _is_stopped(hung.pid)
    hung.resume()
    after_s = [round((each["committed_ms"] - began_ms) / 1_000, 1) for each in running.orders.steps()]
    later = [each for each in after_s if each > 0]
    print(f"{part}: all produced after {produced_s:.1f} s; steps after {later} s")  # noqa: T201
    running.orders.produce(20)
    running.until_done("all is committed after it woke up")
    running.orders.check()


def _is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED
