"""The brokers of a chaos run: one, or a cluster of three with everything that can happen to it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.embedded import EmbeddedBroker, EmbeddedCluster
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import control_partition
from tests.chaos.broker_faults import BrokerFault, Duty, Scenario
from tests.chaos.names import INPUTS, PIPELINE
from tests.chaos.network import Network
from tests.support.in_sync import await_in_sync
from tests.support.reassignment import reassign

FIRST_GROUP = 5_100
"""Brokers 1 to 3 run under the groups behind it."""
NODES_GROUP = 5_200
ASK_TIMEOUT_S = 10.0
WHOLE_TIMEOUT_S = 180.0


class OneBroker:
    """The embedded broker."""

    def __init__(self, home: Path) -> None:
        self._broker = EmbeddedBroker(home / "broker").start()
        self.replicas = 1

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    def processes(self) -> list[psutil.Process]:
        """Those that run."""
        return [psutil.Process(self._broker.pid)] if self._broker.is_running else []

    def is_there(self, pids: set[int]) -> bool:
        """Whether one of these processes is a broker that has not ended."""
        return self._broker.is_running and self._broker.pid in pids

    def revive(self) -> list[str]:
        """Start what does not run; the names."""
        if self._broker.is_running:
            return []
        self._broker.kill()  # Tidies up after the dead one, so that its guard does not outlive it.
        self._broker.start()
        return ["broker"]

    def await_whole(self) -> None:
        """One broker is whole when it runs."""

    def stop(self) -> None:
        self._broker.stop()


class ThreeBrokers:
    """A cluster as production has it: three replicas, two of which have to have a record before it counts."""

    def __init__(self, home: Path, *, cuts: bool) -> None:
        groups = {node: FIRST_GROUP + node for node in (1, 2, 3)} if cuts else {}
        self._cluster = EmbeddedCluster(home / "brokers", 3, groups=groups).start()
        self._network = Network()
        self.replicas = 3

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def processes(self) -> list[psutil.Process]:
        """Those that run."""
        return [psutil.Process(broker.pid) for broker in self._brokers.values() if broker.is_running]

    def is_there(self, pids: set[int]) -> bool:
        """Whether one of these processes is a broker that has not ended."""
        return any(broker.is_running and broker.pid in pids for broker in self._brokers.values())

    def revive(self) -> list[str]:
        """Start what does not run; the names. All of them at once, for alone they may not become ready."""
        dead = [node for node, broker in self._brokers.items() if not broker.is_running]
        for node in dead:
            self._brokers[node].kill()
        if dead:
            self._cluster.start()
        return [f"broker {node}" for node in dead]

    def await_whole(self) -> None:
        """Until every replica of every partition is in sync: then what any broker shows as an end is the end.

        Raises TimeoutError naming a partition that is not.
        """
        await_in_sync(self.bootstrap_servers, WHOLE_TIMEOUT_S, len(self._brokers))

    def stop(self) -> None:
        self._network.close()
        self._cluster.stop()

    def strike(self, fault: BrokerFault, generator: random.Random, meanwhile: Callable[[], None]) -> int:
        """Do it, all of it: brokers are back, awake and connected when this returns. How many were hit.

        meanwhile: called once while it is at its worst.
        """
        first = self._on_duty(fault.duty, generator)
        others = [node for node in self._brokers if node != first]
        match fault.scenario:
            case Scenario.KILL:
                return self._down([first], fault.outage_s, meanwhile)
            case Scenario.PAUSE:
                return self._asleep([first], fault.outage_s, meanwhile)
            case Scenario.TWO_DOWN:
                down = [first, generator.choice(others)]
                return (self._down if generator.random() < 0.5 else self._asleep)(
                    down, fault.outage_s, meanwhile
                )
            case Scenario.ALL_DOWN:
                return self._down([first, *others], fault.outage_s, meanwhile)
            case Scenario.ROLLING_RESTART:
                return self._restart_all([first, *others], meanwhile)
            case Scenario.ELECTION | Scenario.REASSIGNMENT:
                return self._move_leaders(fault.scenario, generator, meanwhile)
            case Scenario.CUT_FROM_PEERS | Scenario.CUT_FROM_NODES:
                return self._cut_off(first, others, fault, meanwhile)

    @property
    def _brokers(self) -> Mapping[int, EmbeddedBroker]:
        return self._cluster.brokers

    def _down(self, nodes: Sequence[int], outage_s: float, meanwhile: Callable[[], None]) -> int:
        for node in nodes:
            self._brokers[node].kill()
        meanwhile()
        time.sleep(outage_s)
        self._cluster.start()
        return len(nodes)

    def _asleep(self, nodes: Sequence[int], outage_s: float, meanwhile: Callable[[], None]) -> int:
        for node in nodes:
            self._brokers[node].pause()
        meanwhile()
        time.sleep(outage_s)
        for node in nodes:
            self._brokers[node].resume()
        return len(nodes)

    def _restart_all(self, nodes: Sequence[int], meanwhile: Callable[[], None]) -> int:
        for node in nodes:
            self._brokers[node].stop()
            self._brokers[node].start()
            if node == nodes[0]:
                meanwhile()
        return len(nodes)

    def _move_leaders(
        self, scenario: Scenario, generator: random.Random, meanwhile: Callable[[], None]
    ) -> int:
        self.await_whole()
        partitions = [
            (topic, part.id) for topic, one in self._topics().items() for part in one.partitions.values()
        ]
        if scenario is Scenario.REASSIGNMENT:
            orders = {place: generator.sample(sorted(self._brokers), 3) for place in partitions}
            asyncio.run(reassign(self._cluster.settings, orders))
        meanwhile()
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        places = [TopicPartition(topic, partition) for topic, partition in partitions]
        # Without request_timeout, which confluent-kafka 2.x can't take here
        # (SystemError, "more argument specifiers").
        admin.elect_leaders(ElectionType.PREFERRED, places).result(ASK_TIMEOUT_S)
        return len(self._brokers)

    def _cut_off(
        self, first: int, others: Sequence[int], fault: BrokerFault, meanwhile: Callable[[], None]
    ) -> int:
        group = FIRST_GROUP + first
        if fault.scenario is Scenario.CUT_FROM_NODES:
            self._network.cut([NODES_GROUP], self._cluster.ports(first))
        else:
            self._network.cut([group], [port for other in others for port in self._cluster.ports(other)])
            self._network.cut([FIRST_GROUP + other for other in others], self._cluster.ports(first))
        meanwhile()
        time.sleep(fault.outage_s)
        self._network.heal()
        return 1

    def _on_duty(self, duty: Duty, generator: random.Random) -> int:
        """The broker that has it; any, if nobody says within a while, as after a fault that has not
        healed."""
        try:
            node = self._find(duty, generator)
        except (KafkaException, KcontrolError, TimeoutError):
            node = -1
        return node if node in self._brokers else generator.choice(sorted(self._brokers))

    def _find(self, duty: Duty, generator: random.Random) -> int:
        names = ClusterSettings(bootstrap_servers=self.bootstrap_servers).names()
        match duty:
            case Duty.CONTROLLER:
                return self._cluster.controller()
            case Duty.STEPS_LEADER:
                return self._leader(names.steps_topic(PIPELINE), 0)
            case Duty.CONTROL_LEADER:
                topic = names.control_topic()
                return self._leader(topic, control_partition(PIPELINE, len(self._topics()[topic].partitions)))
            case Duty.INPUT_LEADER:
                topic = generator.choice(sorted(INPUTS))
                return self._leader(topic, generator.randrange(INPUTS[topic]))
            case Duty.EXCHANGE_LEADER:
                begin = names.exchange_prefix(PIPELINE)
                topic = generator.choice(sorted(name for name in self._topics() if name.startswith(begin)))
                return self._leader(topic, generator.randrange(len(self._topics()[topic].partitions)))
            case Duty.TRANSACTION_COORDINATOR:
                return self._asked(lambda rpc: rpc.transaction_coordinator(names.transactional_id(PIPELINE)))
            case Duty.GROUP_COORDINATOR:
                return self._asked(lambda rpc: rpc.group_coordinator(names.coordinator_group()))

    def _asked(self, ask: Callable[[KafkaRpc], Any]) -> int:
        async def run() -> int:
            rpc = KafkaRpc(self._cluster.settings)
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    found: int = await ask(rpc)
                    return found
            finally:
                await rpc.close()

        return asyncio.run(run())

    def _leader(self, topic: str, partition: int) -> int:
        found: int = self._topics()[topic].partitions[partition].leader
        return found

    def _topics(self) -> Mapping[str, Any]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        found: Mapping[str, Any] = admin.list_topics(timeout=ASK_TIMEOUT_S).topics
        return found
