"""What the broker's data directory holds, and the files that are written into it before a start."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kcontrol.errors import ClusterError
from kcontrol.settings.locks import LockedError, lock

HOST = "127.0.0.1"

# Whatever the number of nodes: any may be killed at any moment, so few partitions for the internal topics
# (each is a directory that every start has to open), no waiting for group members that will never come, and a
# transaction that timed out is aborted within a second.
_DEFAULTS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "unclean.leader.election.enable": "false",
}

# Of one broker nobody takes over, so that nothing is won when its own controller misses it after the whole machine stood still
# for a while; its partitions would be without a leader then, and markers of transactions may be lost (`former_life`). One
# that was killed does not have to wait: its former life is noted to be over before. With several the session is Kafka's own,
# because how long a fault lasts is what a cluster is tried for.
_SESSION_ALONE: Mapping[str, str] = {
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "250",
}
_SESSION: Mapping[str, str] = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}

MAX_REPLICATION = 3
MEMBER_DIRECTORY = "broker-{}"

_TOLD_LINES = 8

_LOGGING = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:kcontrol.log}
appender.file.filePattern = ${sys:kcontrol.log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %p %m (%c)%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 16MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True)
class Member:
    """Which node of which cluster a broker is. controller_ports: of all nodes by id, each of
    which is a voter of the quorum."""

    node_id: int
    controller_ports: Mapping[int, int]
    cluster_id: str

    @property
    def is_alone(self) -> bool:
        return len(self.controller_ports) == 1

    @property
    def controller_port(self) -> int:
        return self.controller_ports[self.node_id]

    @property
    def voters(self) -> str:
        return ",".join(f"{node}@{HOST}:{port}" for node, port in self.controller_ports.items())

    def properties(self) -> dict[str, str]:
        """The defaults of a server in this place: where there are three, every topic is on
        three, two of which must have it."""
        replication = min(MAX_REPLICATION, len(self.controller_ports))
        in_sync = str(max(1, replication - 1))
        return {
            **_DEFAULTS,
            **(_SESSION_ALONE if self.is_alone else _SESSION),
            "node.id": str(self.node_id),
            "controller.quorum.voters": self.voters,
            "default.replication.factor": str(replication),
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": str(replication),
            "transaction.state.log.replication.factor": str(replication),
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": str(replication),
            "share.coordinator.state.topic.min.isr": in_sync,
        }


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The layout of a broker's data directory."""

    root: Path

    @property
    def properties(self) -> Path:
        return self.root / "server.properties"

    @property
    def logging(self) -> Path:
        return self.root / "log4j2.properties"

    @property
    def log(self) -> Path:
        """What the broker logs."""
        return self.root / "broker.log"

    @property
    def console(self) -> Path:
        """What the Java machine itself says, as when it can't get its memory."""
        return self.root / "console.log"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def scratch(self) -> Path:
        """For native libraries that the jars unpack, so that a killed broker leaves
        nothing in the system's directory."""
        return self.root / "tmp"

    @property
    def controller_properties(self) -> Path:
        return self.root / "controller.properties"

    @property
    def controller_log(self) -> Path:
        return self.root / "controller.log"

    @property
    def is_formatted(self) -> bool:
        return (self.data / "meta.properties").is_file()

    @property
    def cluster_id(self) -> str | None:
        """Of the cluster that it was formatted for."""
        if not self.is_formatted:
            return None
        lines = (self.data / "meta.properties").read_text(encoding="utf-8").splitlines()
        return next(
            (line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), None
        )

    @property
    def members(self) -> list[str]:
        """Names of directories in it that are of brokers of a cluster."""
        found = [
            path.name
            for path in self.root.glob(MEMBER_DIRECTORY.format("*"))
            if DataDirectory(path).is_formatted
        ]
        return sorted(found)

    @property
    def quorum(self) -> tuple[int, int]:
        """(term, id of the controller in charge or -1) as this node last wrote it down; (-1, -1) when it has
        not."""
        try:
            state = json.loads(
                (self.data / "__cluster_metadata-0" / "quorum-state").read_text(encoding="utf-8")
            )
        except (FileNotFoundError, ValueError):  # ValueError: half written.
            return -1, -1
        return state["leaderEpoch"], state["leaderId"]

    @property
    def was_killed(self) -> bool:
        """Whether the broker's former life ended without the mark that Kafka leaves when it stops by
        itself."""
        has_lived = (self.data / "__cluster_metadata-0").is_dir()
        return has_lived and not (self.data / ".kafka_cleanshutdown").is_file()

    def lock(self) -> BinaryIO:
        """An open file that keeps others out of the directory for as long as it, or a copy
        that a child inherited, is open.

        Raises ClusterError: another broker, of whatever process, has the directory.
        """
        try:
            return lock(self.root / "lock")
        except LockedError as error:
            raise ClusterError(
                f"Another broker uses this data directory: {self.root}. Stop it, or choose another one "
                "with --data-dir."
            ) from error

    def write(
        self,
        port: int,
        member: Member,
        properties: Mapping[str, str],
        log_levels: Mapping[str, str] | None = None,
    ) -> None:
        """Write server.properties and the logging settings; `properties` override the
        defaults. log_levels: by logger."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        merged = {
            **member.properties(),
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{member.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": _escape(str(self.data)),
            **properties,
        }
        _write_properties(self.properties, merged)
        named = (
            f"logger.{number}.name = {name}\nlogger.{number}.level = {level}\n"
            for number, (name, level) in enumerate((log_levels or {}).items())
        )
        self.logging.write_text(_LOGGING + "".join(named), encoding="utf-8")

    def write_controller(self, member: Member, session_timeout_ms: int) -> None:
        """Write the properties of a controller without a broker over the same metadata."""
        merged = {
            "process.roles": "controller",
            "node.id": str(member.node_id),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": member.voters,
            "listeners": f"CONTROLLER://{HOST}:{member.controller_port}",
            "log.dirs": _escape(str(self.data)),
            "broker.session.timeout.ms": str(session_timeout_ms),
            "controller.quorum.append.linger.ms": "0",
        }
        _write_properties(self.controller_properties, merged)
        self.controller_log.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of the log that says most."""
        return telling_lines(
            "".join(path.read_text("utf-8", "replace") for path in (self.console, self.log) if path.is_file())
        )


def telling_lines(said: str) -> str:
    """Of what a Java program said: the last errors without their stack traces, or else simply the last
    lines."""
    lines = [line for line in said.splitlines() if not line.startswith("\tat ")]
    errors = [
        line for line in lines if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error"))
    ]
    return "\n".join((errors or lines)[-_TOLD_LINES:])


def new_cluster_id() -> str:
    """22 characters of URL-safe base64, not starting with a dash, which StorageTool would take for an
    option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")


def _escape(value: str) -> str:
    """A backslash begins an escape in Java's properties files."""
    return value.replace("\\", "\\\\")
