"""Which checkpoints a node could open: asked of their storage before all else, and not for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint, LimitsSpec
from kcontrol.errors import KcontrolError, RetriableError
from kcontrol.sessions.engine_jobs import GRACE_MS
from kcontrol.sessions.health import Health
from kcontrol.sessions.ports import Engine
from kcontrol.sessions.ticker import LONGEST_PAUSE_MS

LOOKING = "looking which checkpoints can be opened"


def limit(limits: LimitsSpec, needed: bool) -> tuple[str, int]:
    """How long a node looks: the setting, and its milliseconds. needed: it has nothing of its own to go on from;
    otherwise it waits no longer than for opening what it has."""
    if needed:
        return "save_timeout", limits.save_timeout_ms
    return "open_timeout", limits.open_timeout_ms


async def find_restorable(
    engine: Engine, steps: StepsView, limits: LimitsSpec, health: Health, log: logging.Logger
) -> tuple[int, ...]:
    """The steps of the checkpoints that could be opened. A node that needs none of them does not need their storage to
    start.

    health: told what is waited for, and that the event loop turns meanwhile. Raises KcontrolError.
    """
    if not steps.checkpoints:
        return ()
    held = [step for step in engine.openable() if steps.void_by(step) is None]
    needed = not any(steps.can_replay_after(step) for step in held)
    try:
        return await _asked(engine, steps.checkpoints, *limit(limits, needed), health)
    except KcontrolError as error:
        if needed:
            raise
        log.warning(
            "the checkpoints can't be read, and will not be opened by this incarnation of the node: %s", error
        )
        return ()


async def _asked(
    engine: Engine, checkpoints: Sequence[Checkpoint], setting: str, most_ms: int, health: Health
) -> tuple[int, ...]:
    asked = asyncio.ensure_future(engine.restorable(checkpoints))
    try:
        with health.at_work(LOOKING, most_ms + GRACE_MS):
            async with asyncio.timeout(most_ms / 1000) as deadline:
                while not asked.done():
                    health.beat()
                    await asyncio.wait([asked], timeout=LONGEST_PAUSE_MS / 1000)
        return asked.result()
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise RetriableError(
            f"the storage of checkpoints has not answered for {most_ms} ms ({setting}), {LOOKING}: see what keeps it, then "
            "start the node again, unless a supervisor does"
        ) from error
    finally:
        asked.cancel()
        # What comes next beats by itself, as soon as it has begun.
        health.rests()
