"""EmbeddedCluster: several real brokers as child processes, which form one cluster, with ways to hit each of
them.

It exists to see what one broker can't show: leaders that move, replicas that lag, a broker that stops and
wakes up. Every process is broker and controller, has its own data directory, ports and log, and may be killed
at any moment and started again on its data. A topic is on three of them, a write counts once two have it, and
only a replica that has everything is elected.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.kafka.embedded.artifacts import ensure_jars
from kcontrol.adapters.kafka.embedded.broker import EmbeddedBroker
from kcontrol.adapters.kafka.embedded.files import MEMBER_DIRECTORY, DataDirectory, Member, new_cluster_id
from kcontrol.adapters.kafka.embedded.ports import free_ports
from kcontrol.backoff import Backoff
from kcontrol.errors import ClusterError, ConfigurationError
from kcontrol.settings.cluster import ClusterSettings

_ASK_TIMEOUT_S = 2.0
_ASK_AGAIN = Backoff(first_ms=100, longest_ms=100)
_LAST_WORDS_MS = 3_000
_ADMIN = {"socket.timeout.ms": 1_000, "socket.connection.setup.timeout.ms": 1_000, "log_level": 0}


class EmbeddedCluster:
    """Kafka brokers 1 to `brokers` on 127.0.0.1, each of which is also a controller.

    data_dir: kept over restarts, with a directory `broker-N` of each; None makes a
    temporary one, which `stop` removes.
    port: the first broker's port for clients, the others have the ones that follow; None takes free ones. All
    are kept for as long as this object lives. groups: by broker, the group id that its process runs under.
    Everything else is as of `EmbeddedBroker`, and the same for all.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        brokers: int = 3,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        start_timeout_s: float = 120.0,
        stop_timeout_s: float = 20.0,
        outlive_parent: bool = False,
        log_levels: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        groups: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        if brokers < 1:
            raise ConfigurationError(f"A cluster has at least one broker, not {brokers}.")
        if port is not None and not 0 < port <= 65536 - brokers:
            raise ConfigurationError(
                f"The ports of {brokers} brokers from {port} on must be between 1 and 65535."
            )
        self._temporary = data_dir is None
        self._root = Path(data_dir or tempfile.mkdtemp(prefix="kcontrol-brokers-")).resolve()
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        ids = range(1, brokers + 1)
        self._directories = {node: DataDirectory(self._root / MEMBER_DIRECTORY.format(node)) for node in ids}
        self._refuse_other_number()
        ports = free_ports(2 * brokers)
        self._ports = dict(zip(ids, ports if port is None else range(port, port + brokers), strict=False))
        self._controller_ports = controller_ports = dict(
            zip(ids, [each for each in ports if each not in self._ports.values()], strict=False)
        )
        known = (directory.cluster_id for directory in self._directories.values())
        cluster_id = next(filter(None, known), None) or new_cluster_id()
        self._brokers = {
            node: EmbeddedBroker(
                self._directories[node].root,
                self._ports[node],
                properties,
                heap_mb=heap_mb,
                start_timeout_s=start_timeout_s,
                stop_timeout_s=stop_timeout_s,
                outlive_parent=outlive_parent,
                log_levels=log_levels,
                java_options=java_options,
                member=Member(node, controller_ports, cluster_id),
                group=groups.get(node),
            )
            for node in ids
        }

    @property
    def brokers(self) -> Mapping[int, EmbeddedBroker]:
        """Each by its id. `kill`, `pause` and `resume` hit one; `start` brings it back.

        A broker that was killed is let in again once its former life's session is over
        (`broker.session.timeout.ms`: 9 s, Kafka's own default), and `start` waits for that; `launch` does
        not.
        """
        return MappingProxyType(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """All of them: `127.0.0.1:PORT,...`."""
        return ",".join(broker.bootstrap_servers for broker in self._brokers.values())

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings(bootstrap_servers=self.bootstrap_servers)

    def ports(self, node: int) -> tuple[int, int]:
        """Where a broker listens: to clients and brokers, and to controllers."""
        return self._ports[node], self._controller_ports[node]

    @property
    def data_dir(self) -> Path:
        return self._root

    @property
    def is_running(self) -> bool:
        """Whether all processes are there."""
        return all(broker.is_running for broker in self._brokers.values())

    def start(self) -> EmbeddedCluster:
        """Start those that don't run and return when all answer clients.

        After all were killed it takes as long as their former lives' sessions (`broker.session.timeout.ms`).
        Raises JavaError, ArtifactError, or ClusterError naming the broker that did not start and what its log
        says.
        """
        missing = [broker for broker in self._brokers.values() if not broker.is_running]
        ensure_jars()  # Here and once: what is missing is then fetched once, and said once.
        try:
            self._each(missing, EmbeddedBroker.launch)
            self._each(missing, EmbeddedBroker.await_ready)
        except BaseException:
            for broker in missing:
                broker.kill()
            raise
        return self

    def stop(self) -> None:
        """End all gracefully, at once. The last ones, who can't ask a quorum for leave any more, are
        killed."""
        running = [broker for broker in self._brokers.values() if broker.is_running]
        for broker in running:
            broker.terminate()
        if _ASK_AGAIN.within(round(self._stop_timeout_s * 1000)).poll(lambda: not self._has_quorum(running)):
            _ASK_AGAIN.within(_LAST_WORDS_MS).poll(lambda: not any(broker.is_running for broker in running))
        self.kill()
        if self._temporary:
            shutil.rmtree(self._root, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL to all."""
        for broker in self._brokers.values():
            broker.kill()

    def controller(self) -> int:
        """Id of the broker whose controller is in charge. Raises ClusterError: there is
        none within the time for a start."""
        return self._ask("the controller in charge", self._controller)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Id of the broker that leads a partition. Raises ClusterError: there is none within the time for a
        start."""
        return self._ask(
            f"the leader of {topic}-{partition}", lambda: self._metadata_leader(topic, partition)
        )

    def __enter__(self) -> EmbeddedCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _refuse_other_number(self) -> None:
        found = DataDirectory(self._root).members
        wanted = {directory.root.name for directory in self._directories.values()}
        if DataDirectory(self._root).is_formatted:
            raise ClusterError(
                f"{self._root} holds the data of a single broker. Choose another directory with --data-dir."
            )
        if set(found) - wanted:
            raise ClusterError(
                f"{self._root} holds the data of a cluster with {', '.join(found)}, which can't become one "
                f"of {len(wanted)} brokers. Start it with as many as it was made with, or choose another "
                "directory with --data-dir."
            )

    def _has_quorum(self, brokers: Iterable[EmbeddedBroker]) -> bool:
        return 2 * sum(broker.is_running for broker in brokers) > len(self._brokers)

    def _controller(self) -> int | None:
        """By what the controllers that run have written down last; the newest term counts."""
        _, leader = max(
            self._directories[node].quorum for node, broker in self._brokers.items() if broker.is_running
        )
        return leader if leader in self._brokers and self._brokers[leader].is_running else None

    def _metadata_leader(self, topic: str, partition: int) -> int | None:
        try:
            topics = (
                AdminClient({**_ADMIN, "bootstrap.servers": self.bootstrap_servers})
                .list_topics(topic, _ASK_TIMEOUT_S)
                .topics
            )
        except KafkaException:
            return None
        found = topics[topic].partitions.get(partition)
        return found.leader if found is not None and found.leader in self._brokers else None

    def _ask(self, what: str, ask: Callable[[], int | None]) -> int:
        answer = _ASK_AGAIN.within(round(self._start_timeout_s * 1000)).poll(ask)
        if answer is None:
            raise ClusterError(f"The embedded cluster in {self._root} does not name {what}.")
        return answer

    def _each(self, brokers: Sequence[EmbeddedBroker], do: Callable[[EmbeddedBroker], None]) -> None:
        """For all at the same time; raises what the first raised."""
        with ThreadPoolExecutor(max_workers=len(self._brokers)) as pool:
            for _ in pool.map(do, brokers):
                pass
