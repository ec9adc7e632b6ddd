"""A Spark standalone cluster: its master and workers from the jars that PySpark brings, on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil
import pyspark

from kcontrol.adapters.java import find_java
from tests.support.processes import environment, until

PATIENCE_S = 120.0
_HOST = "127.0.0.1"
_EXECUTOR = "CoarseGrainedExecutorBackend"


def linked_spark_home(directory: Path) -> Path:
    """PySpark's own directory by links, in a new one: a cluster writes directories of its own into SPARK_HOME."""
    home = directory / "spark-home"
    home.mkdir(parents=True)
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    return home


class StandaloneCluster:
    """One master and so many workers of one core each, from `with` to its end.

    env: of the workers, and so of executors and their Python.
    """

    def __init__(self, directory: Path, workers: int, env: Mapping[str, str] | None = None) -> None:
        self._directory, self._workers = directory, workers
        self._home = directory / "spark-home"
        self._env = environment(
            {
                **(env or {}),
                "SPARK_HOME": str(self._home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_SCALA_VERSION": "2.13",
            }
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> StandaloneCluster:
        linked_spark_home(self._directory)
        try:
            said = self._start(
                "master.Master", "--host", _HOST, "--port", "0", "--webui-port", "0", name="master"
            )
            self.url = self._awaited(said, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                said = self._start(
                    "worker.Worker",
                    *("--host", _HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(self._directory / f"worker-{number}"), self.url),
                    name=f"worker-{number}",
                )
                self._awaited(said, r"Successfully registered with (master)")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._end()

    def executors(self) -> list[psutil.Process]:
        """Those that run now."""
        found = []
        for process in self._family():
            try:
                if any(_EXECUTOR in word for word in process.cmdline()):
                    found.append(process)
            except psutil.NoSuchProcess:
                pass
        return found

    def _start(self, kind: str, *arguments: str, name: str) -> Path:
        said = self._directory / f"{name}.log"
        command = [find_java().executable, "-Xmx256m", "-cp", f"{self._home}/conf:{self._home}/jars/*"]
        with said.open("wb") as out:
            process = subprocess.Popen(
                [*command, f"org.apache.spark.deploy.{kind}", *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=self._env, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return said

    def _awaited(self, said: Path, pattern: str) -> str:
        until(
            lambda: re.search(pattern, said.read_text(errors="replace")),
            f"{said.name} says {pattern!r}",
            PATIENCE_S,
            lambda: said.read_text(errors="replace")[-3_000:],
        )
        found = re.search(pattern, said.read_text(errors="replace"))
        assert found is not None
        return found[1]

    def _family(self) -> list[psutil.Process]:
        found = []
        for process in self._processes:
            try:
                parent = psutil.Process(process.pid)
                found += [parent, *parent.children(recursive=True)]
            except psutil.NoSuchProcess:
                pass
        return found

    def _end(self) -> None:
        family = self._family()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(family, timeout=10)
        for child in self._processes:
            child.wait()
