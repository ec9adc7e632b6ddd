"""What the broker's data directory holds, and the files that are written into it before a start."""

from __future__ import annotations

import base64
import fcntl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kcontrol.errors import ClusterError

HOST = "127.0.0.1"

# One node is the whole cluster, and it may be killed at any moment: replication of one, few partitions for the internal topics
# (each is a directory that every start has to open), no waiting for group members that will never come, and a transaction
# that timed out is aborted within a second.
_DEFAULTS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # A broker that was killed may come back only when its former life's session is over.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
    "group.initial.rebalance.delay.ms": "0",
    "group.coordinator.rebalance.protocols": "classic,consumer",
}

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
        """For native libraries that the jars unpack, so that a killed broker leaves nothing in the system's directory."""
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
    def was_killed(self) -> bool:
        """Whether the broker's former life ended without the mark that Kafka leaves when it stops by itself."""
        has_lived = (self.data / "__cluster_metadata-0").is_dir()
        return has_lived and not (self.data / ".kafka_cleanshutdown").is_file()

    def lock(self) -> BinaryIO:
        """An open file that keeps others out of the directory for as long as it, or a copy that a child inherited, is open.

        Raises ClusterError: another broker, of whatever process, has the directory.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        file = (self.root / "lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise ClusterError(
                f"Another broker uses this data directory: {self.root}. Stop it, or choose another one with --data-dir."
            ) from error
        return file

    def write(
        self, port: int, controller_port: int, properties: Mapping[str, str], log_levels: Mapping[str, str] | None = None
    ) -> None:
        """Write server.properties and the logging settings; `properties` override the defaults. log_levels: by logger."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        merged = {
            **_DEFAULTS,
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
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

    def write_controller(self, controller_port: int, session_timeout_ms: int) -> None:
        """Write the properties of a controller alone over the same metadata."""
        merged = {
            "process.roles": "controller",
            "node.id": _DEFAULTS["node.id"],
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"CONTROLLER://{HOST}:{controller_port}",
            "log.dirs": _escape(str(self.data)),
            "broker.session.timeout.ms": str(session_timeout_ms),
            "controller.quorum.append.linger.ms": "0",
        }
        _write_properties(self.controller_properties, merged)
        self.controller_log.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of the log that says most."""
        return telling_lines("".join(path.read_text("utf-8", "replace") for path in (self.console, self.log) if path.is_file()))


def telling_lines(said: str) -> str:
    """Of what a Java program said: the last errors without their stack traces, or else simply the last lines."""
    lines = [line for line in said.splitlines() if not line.startswith("\tat ")]
    errors = [line for line in lines if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error"))]
    return "\n".join((errors or lines)[-_TOLD_LINES:])


def new_cluster_id() -> str:
    """22 characters of URL-safe base64, not starting with a dash, which StorageTool would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")


def _escape(value: str) -> str:
    """A backslash begins an escape in Java's properties files."""
    return value.replace("\\", "\\\\")
