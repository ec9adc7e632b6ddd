"""Tells, beside the delivery, how it is: what `kcontrol status` shows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.errors import ClusterError
from kcontrol.views.deliveries import ToldDelivery

_log = logging.getLogger("kcontrol.deliver")

EVERY_S = 2.0
AT_LEAST_EVERY_S = 10.0
_JOIN_S = 25.0


@contextmanager
def telling(
    notes: DeliveryNotes, now: Callable[[], ToldDelivery], every_s: float = EVERY_S
) -> Iterator[None]:
    """While the block runs, and once more at its end. now: `at_ms` is set here."""
    ended = threading.Event()
    thread = threading.Thread(
        target=_tell, args=(notes, now, every_s, ended), name="kcontrol-telling", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_S)


def _tell(
    notes: DeliveryNotes, now: Callable[[], ToldDelivery], every_s: float, ended: threading.Event
) -> None:
    last: tuple[object, ...] = ()
    last_s, failed = float("-inf"), False
    while True:
        over = ended.wait(every_s)
        told = now()
        said = (told.state, told.step, told.reason)
        if over or said != last or time.monotonic() - last_s >= AT_LEAST_EVERY_S:
            try:
                notes.tell(told)
                last, last_s, failed = said, time.monotonic(), False
            except ClusterError as error:
                if not failed:
                    _log.warning("kcontrol status does not learn of this delivery: %s", error)
                failed = True
        if over:
            return
