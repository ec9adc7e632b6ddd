"""What an HTTP server under test may take, on a machine that may stand still while it answers."""

from __future__ import annotations

from typing import Any

from kcontrol.adapters.http.limits import HttpLimits
from tests.support.patience import HANG_S

LONG_S = 2 * HANG_S


def patient_limits(**more: Any) -> HttpLimits:
    """No request is given up, and no connection closed, before the test is."""
    return HttpLimits(
        **{"request_timeout_s": LONG_S, "headers_timeout_s": LONG_S, "keep_alive_s": round(LONG_S), **more}
    )
