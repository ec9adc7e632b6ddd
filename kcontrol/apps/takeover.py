"""A node that stands by for another: with Spark, its queries and their code ready, it waits until the number
that it is to have is free.

What it is fenced by, and fences others by, is the claim that any node makes when it joins; nothing here has to
be right for what consumers read to be right. Two that stand by for one number may both take it: the later one
has it, the other stands by again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.numbers import GivenNumber
from kcontrol.apps.heard_logs import HeardLogs
from kcontrol.apps.passing_on import PassedOn
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.presence import Presence
from kcontrol.apps.warming import Warming
from kcontrol.core.model import DesiredMode, NodeJoin, PipelineSpec
from kcontrol.sessions.retrying import DEFAULT_DEADLINE_MS, until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder, why_free

_log = logging.getLogger("kcontrol.node")

LOOK_EVERY_S = 0.5
"""How often the logs are read."""
NOTICE_EVERY_S = 0.05
"""How often it is looked whether a process of this machine has died."""
END_WARMING_S = 20.0
"""A process that begins anew, or ends, waits no longer for what warms up to end: its JVM ends with it."""


@dataclass(frozen=True)
class WaitOver:
    """Why the wait is over. anew: the process is to begin again, not to take the number. spec: what is to be run
    with the number; the definition in the log. given: the number, if an agent has given it. passed: what was read of the logs,
    to be read on and closed by whoever takes the number."""

    reason: str
    anew: bool = False
    spec: PipelineSpec | None = None
    given: GivenNumber | None = None
    passed: PassedOn | None = None


@dataclass(frozen=True)
class StandbyPorts:
    """What the wait needs of whoever waits.

    given: the number that an agent has given; None: none yet. Without that it is looked whether a number is free.
    resolve: the definition as it would be submitted now; raises what `submit.resolve` raises. warming: warms up
    beside the looking. say: tells people. broken: raises when the process is of no use any more.
    """

    resolve: Callable[[], Awaitable[PipelineSpec]]
    warming: Warming
    say: Callable[[str], None]
    broken: Callable[[], None]
    given: Callable[[], GivenNumber | None] | None = None


class Standby:
    """Waits for one number of one pipeline."""

    def __init__(
        self,
        cluster: ClusterSettings,
        pipeline: str,
        node: int,
        nodes: int,
        presence: Presence,
        ports: StandbyPorts,
    ) -> None:
        """nodes: how many there are, as far as this process knows."""
        self._cluster = cluster
        self._pipeline = pipeline
        self._node, self._nodes = node, nodes
        self._presence = presence
        self._ports = ports
        self._compared: PipelineSpec | None = None
        self._fits = self._fitted = False
        self._said = ""

    async def until_free(self, deadline_ms: int = DEFAULT_DEADLINE_MS) -> WaitOver:
        """Returns when the number is to be taken, or the process is to begin anew: the pipeline was stopped,
        or is another than the one that this process has read from its file. What warms up meanwhile is left as it is when
        the number is to be taken: it ends by itself (`Warming.over`).

        deadline_ms: how long Kafka may be away meanwhile. Raises RetriableError when it is away for longer,
        and what the ports raise.
        """
        released: WaitOver | None = None
        try:
            async with pipeline_logs(self._cluster, self._pipeline) as logs:
                hearing = HeardLogs(logs)
                while released is None:
                    await until_deadline(hearing.read, "standing by", _log, deadline_ms)
                    released = await self._look(logs, hearing)
                    if released is None:
                        await self._pause()
                if not released.anew:
                    released = replace(released, passed=await self._passed_on(logs, deadline_ms))
        finally:
            self._ports.warming.give_up()
            if released is None or released.anew:
                await self._ports.warming.over(END_WARMING_S)
        return released

    async def _passed_on(self, logs: PipelineLogs, deadline_ms: int) -> PassedOn:
        log_id = await until_deadline(logs.steps.log_id, "standing by", _log, deadline_ms)
        return PassedOn(logs.hand_on_control(), logs.view, log_id)

    async def _look(self, logs: PipelineLogs, hearing: HeardLogs) -> WaitOver | None:
        spec, desired = logs.view.spec(), logs.view.desired()
        if spec is None and self._given() is not None:
            return WaitOver("it has a number, and nobody has submitted the pipeline", anew=True)
        if spec is None:
            self._say(f"stands by: pipeline {self._pipeline} has not been submitted yet")
            return None
        if desired is not None and desired.mode is DesiredMode.STOPPED:
            return WaitOver("the pipeline is stopped", anew=True)
        made = logs.committed.assignment
        if made is not None and made.live and spec.assignment == made.number and spec.nodes != self._nodes:
            return WaitOver("the layout was changed, to another number of nodes", anew=True)
        given = self._given()
        if not await self._fits_in(spec):
            if self._fitted or given is not None:
                return WaitOver("another definition was submitted", anew=True)
            self._say(
                f"stands by: the log has another definition ({spec.fingerprint}) than this process; it takes "
                "the number once that is submitted which it has"
            )
            return None
        self._fitted = True
        if given is not None:
            return WaitOver(f"it is node {given.node} now", spec=spec, given=given)
        if self._ports.given is not None:
            self._warm_up(logs)
            self._say("stands by: for whichever node of the job loses its place")
            return None
        now_ms = SystemClock().now_ms()
        reason = why_free(logs, self._node, now_ms, hearing.heard_ms, self._presence.gone)
        if reason:
            return WaitOver(reason, spec=spec)
        self._warm_up(logs)
        self._say(f"stands by for {_name(holder(logs, self._node))}")
        return None

    def _warm_up(self, logs: PipelineLogs) -> None:
        """Once it is sure that it waits on: who is needed at once is not to begin with something else."""
        saved = logs.committed.saved
        self._ports.warming.look(logs.committed.step, saved[-1].step if saved else 0)

    async def _fits_in(self, spec: PipelineSpec) -> bool:
        """Whether the definition in the log is that of this process, in every part."""
        if spec != self._compared:
            self._compared, self._fits = spec, await self._ports.resolve() == spec
        return self._fits

    async def _pause(self) -> None:
        """Until it is time to read again, or a process of this machine that showed its presence shows it no
        more."""
        until = time.monotonic() + LOOK_EVERY_S
        shown = not self._presence.free
        while time.monotonic() < until:
            self._ports.broken()
            await asyncio.sleep(NOTICE_EVERY_S)
            if (shown and self._presence.free) or self._given() is not None:
                return

    def _given(self) -> GivenNumber | None:
        return None if self._ports.given is None else self._ports.given()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._ports.say(text)


def _name(join: NodeJoin | None) -> str:
    return "nobody yet" if join is None else f"process {join.process_id} on {join.host}"
