"""Runs each contract test against both fakes and against a real broker that is reached through a proxy."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.adapters.kafka.transaction import requests
from kcontrol.settings.cluster import ClusterSettings
from tests.contract.worlds import OUT, KafkaWorld, MemoryWorld, SimulatedWorld, World
from tests.support.patience import HANG_S
from tests.support.ports import free_ports
from tests.support.proxy import Proxy, proxied_properties
from tests.support.topics import kept

Scenario = Callable[[World], Awaitable[None]]
Run = Callable[[Scenario], None]

_DEADLINE_S = HANG_S


@dataclass(frozen=True)
class ProxiedBroker:
    broker: EmbeddedBroker
    proxied_port: int
    proxy_port: int


@pytest.fixture(scope="session")
def proxied_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    port, controller, proxied, proxy = free_ports(4)
    properties = proxied_properties(port, controller, proxied, proxy)
    with EmbeddedBroker(tmp_path_factory.mktemp("proxied"), port=port, properties=properties) as broker:
        yield ProxiedBroker(broker, proxied, proxy)


_IN_MEMORY = {"memory": MemoryWorld, "simulated": SimulatedWorld}


@pytest.fixture(params=[False, True], ids=["", "epochs told"])
def tells_epochs(request: pytest.FixtureRequest) -> bool:
    """Whether Kafka gives each transaction an epoch of its own, and tells it with the end of the one before."""
    return bool(request.param)


@pytest.fixture(params=[*_IN_MEMORY, "kafka"])
def run(request: pytest.FixtureRequest, tells_epochs: bool, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(scenario)` runs a coroutine function in a world of its own, to its end or to the deadline."""
    if (world := _IN_MEMORY.get(request.param)) is not None:
        made = partial(world, tells_epochs)
        return lambda scenario: asyncio.run(asyncio.wait_for(_in(made, scenario), _DEADLINE_S))
    if not tells_epochs:
        # As of a cluster whose transaction.version is below 2, which takes the same requests.
        monkeypatch.setattr(requests, "has_epoch_for_each", lambda answer: False)
    proxied = request.getfixturevalue("proxied_broker")
    return lambda scenario: asyncio.run(asyncio.wait_for(_on_kafka(scenario, proxied), _DEADLINE_S))


async def _in(world: Callable[[], World], scenario: Scenario) -> None:
    await scenario(world())


async def _on_kafka(scenario: Scenario, proxied: ProxiedBroker) -> None:
    prefix = f"k{secrets.token_hex(4)}"
    direct = ClusterSettings(bootstrap_servers=proxied.broker.bootstrap_servers, prefix=prefix)
    through_proxy = ClusterSettings(bootstrap_servers=f"127.0.0.1:{proxied.proxy_port}", prefix=prefix)
    out = f"{prefix}.{OUT}"
    await asyncio.to_thread(_create_topics, direct, out)
    async with Proxy(proxied.proxy_port, proxied.proxied_port) as proxy, AsyncExitStack() as stack:
        await scenario(KafkaWorld(direct, through_proxy, out, proxy, stack))


def _create_topics(settings: ClusterSettings, out: str) -> None:
    compacted = {"cleanup.policy": "compact"}
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    topics = [
        NewTopic(f"{settings.prefix}.control", 8, 1, config=compacted),
        NewTopic(f"{settings.prefix}.{KafkaWorld.pipeline}.steps", 1, 1, config=compacted),
        kept(out, 2),
    ]
    for created in admin.create_topics(topics).values():
        created.result(_DEADLINE_S)
