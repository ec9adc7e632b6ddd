"""A coordinator process: a Faust worker that hands the records of its partitions to the
sessions of their pipelines.

It decides nothing. A partition that is assigned gets a keeper, one that is kept through a rebalance
keeps it, one that is gone loses it; who is in charge of a pipeline is settled by the claims in the log, not
by Faust.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faust
from aiokafka import ConsumerRecord

from kcontrol.adapters.faust.app import MIN_SESSION_TIMEOUT_S, Worker, make_app
from kcontrol.adapters.faust.assignor import DEFAULT_SETTLE_S, join_again
from kcontrol.adapters.faust.direct import DirectTransport
from kcontrol.adapters.kafka.admin.groups import Membership, check_may_join, remove_members
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.apps.coordinator_membership import LOOK_EVERY_S, MISSED_LOOKS, watch_membership
from kcontrol.apps.coordinator_partitions import PartitionSessions
from kcontrol.apps.coordinator_presence import CoordinatorPresence, locks_of
from kcontrol.backoff import Backoff
from kcontrol.errors import AccessError, ClusterError, KcontrolError
from kcontrol.sessions.first_to_end import first_to_end
from kcontrol.sessions.observers import NOBODY, CoordinatorObserver
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.scratch import scratch_directory

_log = logging.getLogger("kcontrol.coordinator")

SETTLED_FOR_S = 0.1
RESTARTS = Backoff(first_ms=200, longest_ms=5_000)
"""Between workers that crash. One that has lived longer than the longest wait crashes for the first time
again."""


@dataclass(frozen=True)
class WorkerOptions:
    """How a coordinator process takes part in its group.

    session_timeout_s: after so long without a heartbeat its partitions go to another
    worker. instance, settle_s: see `make_app`.
    stop_timeout_s: a graceful stop takes no longer; Faust alone would wait a minute for a broker that is
    gone. crash_stop_timeout_s: nor does the end of a worker that has crashed.
    look_every_s, missed_looks: see `watch_membership`.
    observer: looks on at the sessions.
    """

    session_timeout_s: float = MIN_SESSION_TIMEOUT_S
    instance: str | None = None
    settle_s: float = DEFAULT_SETTLE_S
    stop_timeout_s: float = 10.0
    crash_stop_timeout_s: float = 180.0
    look_every_s: float = LOOK_EVERY_S
    missed_looks: int = MISSED_LOOKS
    observer: CoordinatorObserver = NOBODY


def run_coordinator(
    settings: ClusterSettings, partitions: int, options: WorkerOptions, ready: Callable[[], None]
) -> None:
    """Run until SIGTERM or SIGINT. A crash of Faust (Kafka away for long) is logged, and a new
    incarnation begins after a back-off.

    partitions: of the control topic, which exists. ready: called whenever partitions (or none) have been
    assigned. Raises AccessError: Kafka refuses the login, or does not let this process look after any
    pipeline.
    """
    asyncio.run(check_may_join(settings))
    tries = RESTARTS.begin()
    presence = CoordinatorPresence(locks_of(settings), options.instance)
    presence.show()
    with ExitStack() as stack:
        stack.callback(presence.hide)
        datadir = stack.enter_context(scratch_directory("faust"))
        while True:
            began = time.monotonic()
            life = _Life(settings, partitions, options, presence, datadir, ready)
            try:
                life.run()
            except Exception:  # noqa: BLE001 - logged whole; the next incarnation starts from the logs, not from this one's state
                _log.exception("the Faust worker crashed; starting again")
            if time.monotonic() - began > RESTARTS.longest_ms / 1000:
                tries.succeeded()
            if life.denied is not None:
                raise life.denied
            if life.stopped_by_signal:
                return
            _raise_if_denied(settings)
            tries.wait_blocking()


def _raise_if_denied(settings: ClusterSettings) -> None:
    try:
        asyncio.run(check_may_join(settings))
    except AccessError:
        raise
    except ClusterError as error:
        _log.warning("%s", error)


class _Life:
    """One Faust app, from its start to its stop or crash."""

    def __init__(
        self,
        settings: ClusterSettings,
        partitions: int,
        options: WorkerOptions,
        presence: CoordinatorPresence,
        datadir: Path,
        ready: Callable[[], None],
    ) -> None:
        self._options = options
        self._ready = ready
        self._presence = presence
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        names = settings.names()
        self._sessions = PartitionSessions(settings, partitions, self._end, options.observer)
        self.denied: AccessError | None = None
        self._app = make_app(
            names.coordinator_group(),
            settings,
            self._loop,
            options.session_timeout_s,
            options.instance,
            presence.client_id,
            datadir,
            options.settle_s,
        )
        self._assigned = asyncio.Event()
        self._listen(names.control_topic())
        self._worker = _SignalledWorker(self._app, self._loop, self._sessions.stop, options.stop_timeout_s)

    @property
    def stopped_by_signal(self) -> bool:
        return self._worker.signalled

    def _end(self, denied: AccessError) -> None:
        """Kafka does not let this process work: end it, as a signal would."""
        if self.denied is None:
            self.denied = denied
            _log.error("%s", denied)
            self._worker.last_words = denied
            os.kill(os.getpid(), signal.SIGTERM)

    def run(self) -> None:
        """Block until the worker has ended; raises what it crashed of."""
        try:
            self._loop.run_until_complete(self._work())
        finally:
            with self._worker.ended_unless_stopped_within(self._options.crash_stop_timeout_s):
                self._loop.run_until_complete(self._sessions.stop())
                self._worker.stop_and_shutdown()

    async def _work(self) -> None:
        settling = asyncio.create_task(self._settle())
        try:
            async with self._presence.watching(self._remove):
                await first_to_end(self._worker.start(), self._watch())
        finally:
            settling.cancel()

    async def _watch(self) -> None:
        membership = Membership(self._settings, self._presence.client_id, self._options.instance)
        try:
            await watch_membership(
                membership.is_there, self._options.look_every_s, self._options.missed_looks
            )
        except AccessError as error:
            self._end(error)
            # The signal ends the worker, and this with it.
            await self._worker.wait_until_stopped()
        finally:
            await membership.close()

    async def _remove(self, client_ids: Collection[str]) -> list[str]:
        removed = await remove_members(self._settings, client_ids)
        if removed:
            join_again(self._app)  # By its next heartbeat this member would learn of it, too.
        return removed

    async def _settle(self) -> None:
        """Ask for a share once it may have one, whenever it had to leave all to others."""
        assignor: Any = self._app.assignor
        while True:
            await self._assigned.wait()
            self._assigned.clear()
            if assignor.waits_for_share:
                # By its clock, not by one that began a moment earlier: asked too early, the group would say no.
                await asyncio.sleep(assignor.unsettled_s + SETTLED_FOR_S)
            if assignor.waits_for_share and not assignor.unsettled_s:
                join_again(self._app)

    def _listen(self, control_topic: str) -> None:
        topic = self._app.topic(
            control_topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
        )

        async def control_records(_stream: Any) -> None:
            """Has the application be a member of the topic's group; the records go another way."""
            await self._worker.wait_until_stopped()

        def take(partition: int, records: Sequence[ConsumerRecord]) -> None:
            for each in records:
                self._sessions.push(
                    partition, RawRecord(each.offset, each.timestamp, each.key, each.value, ())
                )

        self._app.transport = DirectTransport(self._app, take)
        self._app.agent(topic, name="control")(control_records)
        # Faust's annotation of handlers asks for a parameter that it passes by name only.
        on_assigned: Any = self._on_assigned
        self._app.on_partitions_assigned.connect(on_assigned, weak=False)

    async def _on_assigned(self, _app: faust.App, assigned: Any, **_: Any) -> None:
        partitions = {part.partition for part in assigned}
        self._assigned.set()
        _log.info(
            "assigned partitions of the control topic: %s", ", ".join(map(str, sorted(partitions))) or "none"
        )
        # In the background: the rebalance must not wait until the sessions of lost partitions have ended.
        self._app.loop.create_task(self._sessions.assign(partitions))
        self._ready()


class _SignalledWorker(Worker):
    """Ends the sessions before Faust, and the process if that takes too long."""

    def __init__(
        self,
        app: faust.App,
        loop: asyncio.AbstractEventLoop,
        end_sessions: Callable[[], Any],
        stop_timeout_s: float,
    ) -> None:
        super().__init__(app, loop)
        self._end_sessions = end_sessions
        self._stop_timeout_s = stop_timeout_s
        self.signalled = False
        self.last_words: KcontrolError | None = None
        """What the process is ended for."""

    def _schedule_shutdown(self, signal: signal.Signals) -> None:
        if not self.signalled:
            self.signalled = True
            self._give_up_after(self._stop_timeout_s)
        super()._schedule_shutdown(signal)

    async def _stop_on_signal(self, signal: signal.Signals) -> None:
        await self._end_sessions()
        await super()._stop_on_signal(signal)

    @contextmanager
    def ended_unless_stopped_within(self, timeout_s: float) -> Iterator[None]:
        """The process, unless the block has ended by then."""
        watchdog = self._give_up_after(timeout_s)
        try:
            yield
        finally:
            watchdog.cancel()

    def _give_up_after(self, timeout_s: float) -> threading.Timer:
        watchdog = threading.Timer(timeout_s, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        return watchdog

    def _give_up(self) -> None:
        _log.warning("Faust did not stop in time; the process ends without it")
        if self.last_words is not None:
            _log.error("%s", self.last_words)
        os._exit(self._exit_code())

    def _exit_code(self) -> int:
        if self.last_words is not None:
            return self.last_words.exit_code
        return 0 if self.signalled else ClusterError.exit_code
