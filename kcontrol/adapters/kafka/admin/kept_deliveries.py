"""What was found out of deliveries lately, for servers: they are asked often, and Kafka is not.

A request waits a little for a look that it has begun, so that who asks seldom is told of now; it never waits for a Kafka that
does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import DeliveriesSeen, ToldDelivery

_log = logging.getLogger(__name__)

KEPT_S = 5.0
"""Kafka is asked no more often about a pipeline; the same after it could not be asked."""
WAIT_S = 2.0
"""So long a request waits for a look."""
MAX_DELIVERIES = 100
"""Of a pipeline, that are told of."""
MAX_PIPELINES = 200
"""Whose deliveries are remembered: those that were asked for last. With 4 kB each, which is what a broker keeps, 80 MB at the
very most."""
AT_ONCE = 4
"""Looks that are under way."""

Look = Callable[[str], tuple[list[ToldDelivery], int]]
"""Of a pipeline: what is told, and how many were left out. Blocking. Raises KcontrolError."""


@dataclass
class _KeptLook:
    """answered_s: when Kafka answered last. error: why it did not, the last time. due_s: when to ask again. began_s: when
    `look` began."""

    due_s: float
    began_s: float = 0.0
    told: tuple[ToldDelivery, ...] = ()
    left_out: int = 0
    answered_s: float | None = None
    error: str = ""
    look: asyncio.Task[None] | None = None


class KeptDeliveries:
    """For one event loop."""

    def __init__(
        self,
        settings: ClusterSettings,
        look: Look | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
        wait_s: float = WAIT_S,
    ) -> None:
        self._settings, self._monotonic_s, self._wait_s = settings, monotonic_s, wait_s
        self._read = look or self._ask
        self._all: OrderedDict[str, _KeptLook] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def of(self, pipeline: str) -> DeliveriesSeen:
        """What is known. Raises nothing."""
        kept = self._kept(pipeline)
        if kept.look is None and self._monotonic_s() >= kept.due_s:
            kept.began_s = self._monotonic_s()
            kept.look = asyncio.create_task(self._look(pipeline, kept))
        if kept.look is not None:
            left_s = kept.began_s + self._wait_s - self._monotonic_s()
            if left_s > 0:
                await asyncio.wait([kept.look], timeout=left_s)
        return self._seen(kept)

    async def close(self) -> None:
        """Nothing is waited for any more."""
        looks = [each.look for each in self._all.values() if each.look is not None]
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def _kept(self, pipeline: str) -> _KeptLook:
        kept = self._all.setdefault(pipeline, _KeptLook(self._monotonic_s()))
        self._all.move_to_end(pipeline)
        if len(self._all) > MAX_PIPELINES:
            oldest = next((name for name, each in self._all.items() if each.look is None), None)
            if oldest is not None and oldest != pipeline:
                del self._all[oldest]
        return kept

    async def _look(self, pipeline: str, kept: _KeptLook) -> None:
        error = "it ended with an error that the log of this process shows"
        try:
            async with self._turns:
                told, left_out = await _in_daemon(self._read, pipeline)
            kept.told, kept.left_out, error = tuple(told), left_out, ""
            kept.answered_s = self._monotonic_s()
        except KcontrolError as failure:
            error = str(failure)
        except Exception:  # noqa: BLE001 - a bug ends one look, and not those that are asked for later
            _log.exception("a look at deliveries has ended with an error")
        finally:
            kept.error, kept.look = error, None
            kept.due_s = self._monotonic_s() + KEPT_S

    def _seen(self, kept: _KeptLook) -> DeliveriesSeen:
        now_s = self._monotonic_s()
        unknown = [f"{kept.left_out} more deliveries are not told of"] if kept.left_out else []
        if kept.error:
            unknown.append(
                f"{'nothing newer' if kept.answered_s is not None else 'nothing'} is known: {kept.error}"
            )
        elif kept.look is not None and now_s - kept.began_s >= self._wait_s:
            unknown.append(f"Kafka was asked {now_s - kept.began_s:.0f} s ago and has not answered yet")
        age_ms = None if kept.answered_s is None else round((now_s - kept.answered_s) * 1000)
        return DeliveriesSeen(kept.told, age_ms, "; ".join(unknown))

    def _ask(self, pipeline: str) -> tuple[list[ToldDelivery], int]:
        return DeliveryNotes(self._settings, pipeline).look(MAX_DELIVERIES)


async def _in_daemon(read: Look, pipeline: str) -> tuple[list[ToldDelivery], int]:
    """In a thread that whoever ends the process does not wait for: a broker may hang."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[list[ToldDelivery], int]] = loop.create_future()

    def settle(found: tuple[list[ToldDelivery], int] | None, failure: Exception | None) -> None:
        if done.done():
            return
        if failure is not None:
            done.set_exception(failure)
        elif found is not None:
            done.set_result(found)

    def work() -> None:
        found, failure = None, None
        try:
            found = read(pipeline)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            failure = error
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found, failure)

    threading.Thread(target=work, name="kcontrol-deliveries", daemon=True).start()
    return await done
