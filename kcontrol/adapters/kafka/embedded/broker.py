"""EmbeddedBroker: starts, watches and stops a real Apache Kafka as a child process.

It exists so that `kcontrol run`, the demo and the tests need no cluster of somebody else's, and it is the
same Kafka that production runs: KRaft, loopback only. It may be killed at any moment and started again on its
data. Alone it is a whole cluster; `EmbeddedCluster` makes one of several.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.java import find_java
from kcontrol.adapters.kafka.embedded import former_life, guard
from kcontrol.adapters.kafka.embedded.artifacts import ensure_jars
from kcontrol.adapters.kafka.embedded.files import HOST, DataDirectory, Member, new_cluster_id, telling_lines
from kcontrol.adapters.kafka.embedded.pausing import pause_child
from kcontrol.adapters.kafka.embedded.ports import free_ports
from kcontrol.errors import ClusterError, ConfigurationError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)

_PROBE_TIMEOUT_S = 0.5


class EmbeddedBroker:
    """One Kafka node on 127.0.0.1.

    data_dir: kept over restarts; None makes a temporary one, which `stop` removes.
    port: the client's port; None takes a free one, and keeps it over restarts of this object.
    properties: server properties that override the defaults.
    heap_mb: bound of the Java heap.
    outlive_parent: the broker goes on when the process that started it ends; by default it is killed then.
    log_levels: of loggers of Kafka by name; all others log from INFO on. java_options: more options of its
    Java.
    member: its place in a cluster of several; by default it is one of its own. group: the id of the group
    that its Java runs under, by which a packet filter knows it; needs root.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        start_timeout_s: float = 120.0,
        stop_timeout_s: float = 20.0,
        outlive_parent: bool = False,
        log_levels: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        member: Member | None = None,
        group: int | None = None,
    ) -> None:
        if port is not None and not 0 < port < 65536:
            raise ConfigurationError(f"The broker's port must be between 1 and 65535, not {port}.")
        self._temporary = data_dir is None
        self._dir = DataDirectory(Path(data_dir or tempfile.mkdtemp(prefix="kcontrol-broker-")).resolve())
        self._port = port
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._outlive_parent = outlive_parent
        self._log_levels = dict(log_levels or {})
        self._more_java_options = list(java_options)
        self._member = member
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT`. Known once the broker was started."""
        if self._port is None:
            raise ConfigurationError("The broker has no address before its first start().")
        return f"{HOST}:{self._port}"

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings(bootstrap_servers=self.bootstrap_servers)

    @property
    def data_dir(self) -> Path:
        return self._dir.root

    @property
    def log_file(self) -> Path:
        return self._dir.log

    @property
    def pid(self) -> int:
        """Process id of the broker's Java."""
        if self._process is None:
            raise ConfigurationError("The broker is not running.")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> EmbeddedBroker:
        """Start and return when it answers clients; at once if it runs already.

        Raises JavaError, ArtifactError, or ClusterError: the port is taken, or it ended or was not ready
        in time, with what its log says.
        """
        if not self.is_running:
            self.launch()
            self.await_ready()
        return self

    def launch(self) -> None:
        """Start and return at once: it may take others to make it ready. Raises as `start` does."""
        self.kill()  # takes leave of a former life that somebody else has ended
        if self._dir.members:
            raise ClusterError(
                f"{self._dir.root} holds the data of a cluster ({', '.join(self._dir.members)}). Start it "
                "with as many brokers, or choose another directory with --data-dir."
            )
        java = find_java().executable
        class_path = os.pathsep.join(str(path) for path in ensure_jars())
        with self._dir.lock() as lock:
            self._port = self._port or free_ports(1)[0]
            member = self._member or self._alone(self._port)
            _refuse_busy(self._port)
            self._dir.write(self._port, member, self._properties, self._log_levels)
            if not self._dir.is_formatted:
                self._format(java, class_path, member.cluster_id)
            program: list[str | Path] = ["-cp", class_path, "kafka.Kafka"]
            # Of several the others have noted its end, or do so now, before it may register again.
            if self._dir.was_killed and member.is_alone:
                self._dir.write_controller(member, former_life.SESSION_TIMEOUT_MS)
                options = self._java_options(self._dir.controller_log)
                controller = [java, *options, *program, self._dir.controller_properties]
                former_life.note_its_end(self._dir, controller, self._start_timeout_s)
            # The broker inherits the lock, and so keeps it for as long as it lives, whoever started it.
            self._launch(
                [java, *self._java_options(self._dir.log), *program, self._dir.properties], lock.fileno()
            )

    def await_ready(self) -> None:
        """Return when it answers clients; what was launched and does not get there is killed. Raises
        ClusterError."""
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End it gracefully: SIGTERM, and SIGKILL after `stop_timeout_s`."""
        process = self._process
        if process is not None and process.poll() is None:
            self.terminate()
            try:
                process.wait(self._stop_timeout_s)
            except subprocess.TimeoutExpired:
                _log.warning(
                    "The broker at %s did not stop in %s s and is killed",
                    self.bootstrap_servers,
                    self._stop_timeout_s,
                )
        self.kill()
        if self._temporary:
            shutil.rmtree(self._dir.root, ignore_errors=True)

    def terminate(self) -> None:
        """SIGTERM, and no waiting."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL, as a crash would end it; `start` then starts it again on its data."""
        for process in (self._guard, self._process):
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.wait()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard = None
        self._process = None

    def pause(self) -> None:
        """SIGSTOP: it is there but answers nobody, until `resume`. Raises ClusterError: it did not stop."""
        pause_child(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> int:
        """Block until the broker ends by itself; its exit code."""
        if self._process is None:
            raise ConfigurationError("The broker is not running.")
        return self._process.wait()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _alone(self, port: int) -> Member:
        controller_port = next(each for each in free_ports(2) if each != port)
        return Member(1, {1: controller_port}, self._dir.cluster_id or new_cluster_id())

    def _java_options(self, log: Path) -> list[str]:
        return [
            f"-Xmx{self._heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={self._dir.scratch}",
            f"-Dlog4j2.configurationFile={self._dir.logging}",
            f"-Dkcontrol.log={log}",
            *self._more_java_options,
        ]

    def _format(self, java: Path, class_path: str, cluster_id: str) -> None:
        tool: list[str | Path] = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster_id,
            "--config",
            self._dir.properties,
        ]
        command: list[str | Path] = [java, *self._java_options(self._dir.log), "-cp", class_path, *tool]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=self._start_timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(
                f"Formatting {self._dir.data} took longer than {self._start_timeout_s:.0f} s."
            ) from error
        if result.returncode != 0:
            said = telling_lines(result.stdout + result.stderr)
            raise ClusterError(
                f"The broker's data directory {self._dir.data} could not be formatted:\n{said}"
            )

    def _launch(self, command: list[str | Path], lock: int) -> None:
        if not self._outlive_parent:
            # Before the broker, so that there is no moment at which it runs unguarded and unknown to the
            # guard.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__], stdin=subprocess.PIPE, start_new_session=True
            )
        with self._dir.console.open("wb") as console:
            # A session of its own: Ctrl-C ends the pipeline first, which still needs its broker to end well.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=self._dir.root,
                start_new_session=True,
                pass_fds=[lock],
                group=self._group,
            )
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(b"%d\n" % self._process.pid)
            self._guard.stdin.flush()

    def _await_ready(self) -> None:
        """Ready is when it answers a client's metadata request, and in it names itself: the controller has
        let it in."""
        node_id = self._member.node_id if self._member else 1
        deadline = time.monotonic() + self._start_timeout_s
        admin = AdminClient(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
            }
        )
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ClusterError(self._failure("ended during its start"))
            try:
                if node_id in admin.list_topics(timeout=_PROBE_TIMEOUT_S).brokers:
                    return
            except KafkaException as error:
                _log.debug("The broker is not ready yet: %s", error)
        raise ClusterError(self._failure(f"did not answer within {self._start_timeout_s:.0f} s"))

    def _failure(self, what: str) -> str:
        said = self._dir.last_words()
        return (
            f"The embedded broker at {self.bootstrap_servers} {what}. Its log is {self._dir.log}; it "
            f"ends with:\n{said}"
        )


def _refuse_busy(port: int) -> None:
    with socket.socket() as probe:
        # As the broker will do: connections of an earlier life that linger don't make the port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ClusterError(
                f"Port {port} on {HOST} is taken by another program ({error}). Choose another port with "
                "--port, or stop it."
            ) from error
