"""The probe of a node is answered by a thread of its own, so it says what hangs while the
node's event loop turns no more."""

from __future__ import annotations

import asyncio

import httpx

from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps.http_server import serve_metrics
from kcontrol.sessions.health import HangLimits, Health
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until


class Hand:
    """A monotonic clock."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_the_probe_of_a_node_fails_while_its_event_loop_is_blocked_or_its_engine_does_not_answer() -> None:
    hand, listener = Hand(), Listener(HttpOptions(port=0, limits=patient_limits()))
    health = Health(HangLimits.of(20_000), hand)

    def answered() -> tuple[int, dict[str, str]]:
        answer = httpx.get(f"{listener.url}/health/live", timeout=HANG_S)
        return answer.status_code, answer.json()

    def asked() -> tuple[int, str]:
        code, body = answered()
        return code, body["status"]

    async def the_loop_is_blocked() -> None:
        """By this very test, which waits for the probe without awaiting anything."""
        health.beat()
        assert asked() == (200, "live")
        hand.now_ms += 10_001
        assert asked() == (503, "hung: its event loop has not turned for 10001 ms")
        health.beat()
        assert asked() == (200, "live")
        with health.at_work("opening step 5", 400):
            hand.now_ms += 400
            doing = "opening step 5 for 400 ms, at most 400 ms"
            assert answered() == (200, {"status": "live", "doing": doing})
            hand.now_ms += 1
            assert asked() == (503, "hung: opening step 5 has taken 401 ms, more than 400 ms")
        assert answered() == (200, {"status": "live", "doing": ""})

    with listener.in_thread(lambda: serve_metrics(listener, make_registry(), None, health)):
        until(lambda: listener.url and asked()[0] == 200, "it is served")
        asyncio.run(the_loop_is_blocked())
