"""What an agent says while it can't go on, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable

from kcontrol.adapters.clock import SystemClock
from kcontrol.errors import ClusterError


class WaitingAgent:
    """Of one agent, for one thing at a time. tell: hears what it waits for, once. given_up_ms: after so long it ends, and its
    process manager starts it again, perhaps in another version."""

    def __init__(self, tell: Callable[[str], None], given_up_ms: int) -> None:
        self._tell, self._given_up_ms = tell, given_up_ms
        self._clock = SystemClock()
        self._told: set[str] = set()
        self._since_ms: int | None = None

    def for_kafka(self, why: str, error: str) -> None:
        """For as long as it takes."""
        self._say(why, f"{why}: {error}; it tries again")
        self._since_ms = None

    def for_somebody(self, why: str) -> None:
        """For what does not come by itself. Raises ClusterError once that was waited for long enough."""
        now_ms = self._clock.monotonic_ms()
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        if now_ms - self._since_ms >= self._given_up_ms:
            raise ClusterError(f"the agent has waited for {self._given_up_ms // 1000} s, and ends: {why}")
        self._say(why, f"{why}. It ends if that is so for {self._given_up_ms // 1000} s")

    def for_its_name(self, name: str, is_taken: bool) -> None:
        """Until it is not taken. Raises as `for_somebody`."""
        if is_taken:
            self.for_somebody(
                f"the cluster has an agent {name!r} with another --work-dir, and its beats may still come: end that one, or "
                "give this one another --name"
            )
        else:
            self.over()

    def over(self) -> None:
        """It goes on."""
        self._told, self._since_ms = set(), None

    def _say(self, why: str, what: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._tell(f"waits: {what}")
