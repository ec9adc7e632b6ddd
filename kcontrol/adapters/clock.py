"""The Clock port on the machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """The wall clock, because it ends up in records that other machines compare with
    theirs; and one that nobody can set."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since an unknown moment, the machine's start for instance."""
        return time.monotonic_ns() // 1_000_000
