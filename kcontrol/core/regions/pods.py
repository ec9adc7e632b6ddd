"""Pods of a region's pipelines, as somebody outside says them: what counts of it, and for how long.

It only ever adds to what pipelines say of themselves. Whoever watches the pods may die: then nobody knows of any, and
the region goes by its pipelines alone, as one does whose pipelines run in no pods.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.regions.records import RegionPods


@dataclass(frozen=True, slots=True)
class PodsSaid:
    """The newest word of them, and where it lies."""

    offset: int
    word: RegionPods


@dataclass(frozen=True, slots=True)
class PodsHeard:
    """The newest word, as whoever listens has heard it. at_ms: when, by the monotonic clock. is_news: it came while somebody
    listened; the first may be of any age, and whoever has said it is waited for until its lease would be over."""

    said: PodsSaid | None = None
    at_ms: int = 0
    is_news: bool = False
    listens: bool = False

    def listened(self, said: PodsSaid | None, now_ms: int) -> PodsHeard:
        """After what was said was read."""
        if self.listens and said == self.said:
            return self
        return PodsHeard(said, now_ms, self.listens, listens=True)

    def doubts(self, now_ms: int, lease_ms: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Why it is not known whether all run, and why it is known that they do not: a sentence for each pod."""
        if self.said is None or now_ms - self.at_ms > lease_ms:
            return (), ()
        away = self.said.word.away
        if self.is_news:
            return (), tuple(f"pod {each}" for each in away)
        return tuple(f"pod {each} (nobody knows since when)" for each in away), ()
