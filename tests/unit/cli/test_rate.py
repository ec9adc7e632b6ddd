"""The rates that `kcontrol run` shows are of the last seconds, not since the start."""

from __future__ import annotations

from kcontrol.apps.supervisor.progress import RATE_S, Rate


def test_a_rate_is_of_what_happens_now() -> None:
    now = 100.0
    rate = Rate(lambda: now)
    now += 1
    rate.add(500)
    assert rate.per_second == 500
    now += RATE_S - 1
    rate.add(100)
    assert rate.per_second == 600 / RATE_S
    now += 5
    assert rate.per_second == 100 / RATE_S
    now += RATE_S
    assert rate.per_second == 0
