"""A server that dies, by SIGKILL, while a delivery of this process is at a chosen place on its way."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kcontrol.apps.deliver.progress import DeliveryState
from tests.integration.deliver.lives import AnyLife, Until, live
from tests.support.patience import HANG_S
from tests.support.postgres import PostgresServer
from tests.support.processes import until

SOON_S = 0.02


class ServerDeaths:
    """Of one server. count: so many there were."""

    def __init__(self, server: PostgresServer, dice: random.Random) -> None:
        self._server, self._dice = server, dice
        self._dead = threading.Event()
        self._dying: list[threading.Timer] = []
        self.count = 0

    def deliver(self, life: AnyLife, *, soon: bool) -> None:
        """Until its step, through one death at `life.at`, if it comes there. soon: the server dies within some milliseconds
        after that, whatever the delivery does meanwhile."""
        progress = Until(life.until)
        self._dead.clear()
        with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
            life.ambush(self._die_soon if soon else self._die, patch.setattr)
            running = pool.submit(live, life, progress)
            until(lambda: self._dead.is_set() or running.done(), "the server dies or all is there", HANG_S)
            for each in self._dying:
                each.join(HANG_S)
            self._dying.clear()
            if self._dead.is_set():
                until(
                    lambda: progress.facts.state is DeliveryState.AWAY or running.done(),
                    "the delivery finds out",
                    HANG_S,
                )
                self._server.start()
            running.result(HANG_S)

    def _die(self) -> None:
        self._server.kill()
        self.count += 1
        self._dead.set()

    def _die_soon(self) -> None:
        timer = threading.Timer(self._dice.uniform(0, SOON_S), self._die)
        self._dying.append(timer)
        timer.start()
