"""A pipeline inside an existing Spark application: only the source and sink lines of its code change."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.internals import check, check_version
from kcontrol.adapters.spark.query.bind import Frames
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.session.conf import check_session
from kcontrol.apps.node_service import NodeOptions, NodeService
from kcontrol.apps.relaying import Rebind
from kcontrol.core.events import Exit
from kcontrol.definition.exchanges import ExchangeCompression
from kcontrol.definition.frames import FrameQuery, OutputMode
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError, LeftOutError, ReplacedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home
from kcontrol.settings.toml import resolve_settings

STOP_TIMEOUT_S = 60.0

_log = logging.getLogger("kcontrol.attach")


def attach(
    spark: SparkSession,
    pipeline: Pipeline,
    *,
    bootstrap_servers: str | None = None,
    settings: ClusterSettings | None = None,
    node: int = 0,
    work_dir: str | Path | None = None,
    allow_nondeterministic: bool = False,
) -> Application:
    """Make this Spark application a node of `pipeline`. A coordinator must run elsewhere (`kcontrol
    coordinator`).

    bootstrap_servers or settings: the cluster; by default as the commands find it (environment,
    kcontrol.toml).
    work_dir: for Spark's state; by default nodes/ in the user's data directory.
    allow_nondeterministic: don't refuse rand() and its like; a step that is run again may then differ from
    the log.

    Raises SparkSettingError when the session lacks what correctness needs (see `kcontrol conf`),
    JavaError, ConfigurationError.
    """
    find_java()
    check_version()
    check(spark)
    for sentence in check_session(spark):
        _log.warning("%s", sentence)
    if node >= pipeline.nodes:
        raise ConfigurationError(
            f"node {node}: pipeline {pipeline.name!r} has the nodes 0 to {pipeline.nodes - 1}"
        )
    cluster = settings or resolve_settings(bootstrap_servers, os.environ, Path.cwd())
    options = NodeOptions(node, Path(work_dir or data_home() / "nodes").resolve())
    return Application(
        NodeService(spark, cluster, pipeline, options), spark, pipeline, allow_nondeterministic
    )


class Application:
    """A node of a pipeline in this process. Not to be made directly: see `attach`."""

    def __init__(
        self, service: NodeService, spark: SparkSession, pipeline: Pipeline, allow_nondeterministic: bool
    ) -> None:
        self._service = service
        self._frames = Frames(spark, pipeline, service.host.channel.address)
        self._allow_nondeterministic = allow_nondeterministic
        self._queries: list[FrameQuery] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._working: asyncio.Task[Exit] | None = None
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def read(self, name: str) -> DataFrame:
        """The streaming frame of an input. Raises ConfigurationError if the pipeline has no such input."""
        return self._frames.read(name)

    def exchange(
        self,
        frame: DataFrame,
        by: Any,
        *,
        combine: Any = None,
        name: str | None = None,
        compression: ExchangeCompression = "lz4",
    ) -> DataFrame:
        """`frame` with all rows that are equal in `by` on one node: see `kcontrol.exchange`. Raises
        ConfigurationError."""
        if self._thread is not None:
            raise ConfigurationError(
                "exchange() must come before start(): the queries of a pipeline start together"
            )
        found = self._frames.exchanges
        return found.exchange(frame, by, combine=combine, name=name, compression=compression)

    def write(self, frame: DataFrame, output: str | Sequence[str], mode: OutputMode = "append") -> None:
        """Make `frame` the content of an output, or of several if its column `output` tells
        which. Nothing runs before `start`.

        Raises ConfigurationError after `start`, and for a frame that is not a streaming one.
        """
        if self._thread is not None:
            raise ConfigurationError(
                "write() must come before start(): the queries of a pipeline start together"
            )
        if not frame.isStreaming:
            raise ConfigurationError(
                f"output {output!r}: the frame is not a streaming one: make it from app.read(...)"
            )
        self._queries.append(FrameQuery(frame, mode, (output,) if isinstance(output, str) else tuple(output)))

    def start(self) -> None:
        """Check the queries and start working; returns at once. Raises
        ConfigurationError, NotDeterministicError."""
        if self._thread is not None:
            raise ConfigurationError("this application has been started already")
        frames = self._frames
        bound = frames.kept_as_given(frames.bind(self._queries, self._allow_nondeterministic))

        async def work() -> None:
            self._loop = asyncio.get_running_loop()
            self._working = asyncio.ensure_future(self._service.run(bound, rebind=self._rebinds(bound)))
            self._ready.set()
            ended = await self._working
            if ended.replaced:
                raise ReplacedError(ended.reason)
            if ended.relaid:
                raise LeftOutError(ended.reason)

        def run() -> None:
            try:
                asyncio.run(work())
            except asyncio.CancelledError:
                _log.info("stopped")
            except BaseException as error:  # noqa: BLE001 - it is raised again in await_termination
                self._error = error
            finally:
                self._service.close()
                self._ready.set()
                self._ended.set()

        self._thread = threading.Thread(target=run, name="kcontrol-node", daemon=True)
        self._thread.start()

    def _rebinds(self, bound: BoundQueries) -> Rebind:
        """The application has made its frames, and is not asked again."""
        nodes = self._service.pipeline.nodes

        def rebind(pipeline: Pipeline) -> BoundQueries:
            if nodes != pipeline.nodes and 1 in (nodes, pipeline.nodes):
                raise ConfigurationError(
                    f"this application has made its frames for {nodes} nodes, and for {pipeline.nodes} they are others: "
                    "stop the pipeline and change its layout then"
                )
            return bound

        return rebind

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the node ends, or for so long; True if it has ended. Raises what ended it."""
        if self._thread is None:
            raise ConfigurationError("await_termination() must come after start()")
        ended = self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return ended

    def stop(self) -> None:
        """End the node and wait until its queries have stopped. The Spark session stays. Raises what ended it
        before."""
        self._ready.wait(STOP_TIMEOUT_S)
        if self._loop is not None and self._working is not None and not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._working.cancel)
        self.await_termination(STOP_TIMEOUT_S)
