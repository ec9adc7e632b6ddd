"""The Clock port on the machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """Wall-clock time, because it ends up in records that other machines compare with theirs."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000
