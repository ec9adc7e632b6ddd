"""What each query of `tests/pipelines/exchanged.py` must write, in plain Python: a fold over the steps, whichever nodes ran
them. Watermarks are of all rows of the steps before.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WINDOW_S, GAP_S, DELAY_S = 10, 3, 5
WIDE_S = 20
"""Of windows of windows."""
PAIRED_S, EXPIRES_S, REMINDS_MS = 4, 3, 2_500


@dataclass(frozen=True, slots=True)
class Read:
    """What a step read of each input, and its time."""

    now_ms: int
    clicks: list[dict[str, Any]]
    names: list[dict[str, Any]]


Fold = Callable[[Read], Sequence[dict[str, Any]]]
"""From what a step read to what it writes; keeps what it has seen."""


@dataclass
class Watermarks:
    """Of one query with so many watermark operators, of which the lowest counts, in seconds.

    now: by which the step under way closes what is over. late: that of the step before, by which rows are left out.
    """

    operators: int = 1
    now: int = 0
    late: int = 0
    _reached: list[int] = field(default_factory=list)

    def moves(self, *seen: Sequence[int]) -> None:
        """Another step has ended, whose rows had these event times by operator."""
        self._reached = self._reached or [0] * self.operators
        for number, times in enumerate(seen):
            self._reached[number] = max(self._reached[number], max(times, default=0) - DELAY_S)
        self.late, self.now = self.now, max(self.now, min(self._reached))


def _as_read(column: str) -> Fold:
    return lambda read: [{"user": click["user"], column: click[column]} for click in read.clicks]


def _texts() -> Fold:
    """Of the values themselves, which are JSON as Python writes it."""
    seen: Counter[str] = Counter()

    def fold(read: Read) -> list[dict[str, Any]]:
        texts = [json.dumps(click) for click in read.clicks]
        seen.update(texts)
        return [{"text": text, "n": seen[text]} for text in {*texts}]

    return fold


def _totals() -> Fold:
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def fold(read: Read) -> list[dict[str, Any]]:
        for click in read.clicks:
            n, total = sums[click["user"]]
            sums[click["user"]] = (n + 1, total + click["amount"])
        users = {click["user"] for click in read.clicks}
        return [{"user": user, "n": sums[user][0], "total": sums[user][1]} for user in users]

    return fold


def _grand() -> Fold:
    amounts: list[int] = []

    def fold(read: Read) -> list[dict[str, Any]]:
        amounts.extend(click["amount"] for click in read.clicks)
        return [{"n": len(amounts), "total": sum(amounts)}]

    return fold


def _named() -> Fold:
    clicks: list[dict[str, Any]] = []
    names: list[dict[str, Any]] = []

    def fold(read: Read) -> list[dict[str, Any]]:
        before = (len(clicks), len(names))
        clicks.extend(read.clicks)
        names.extend(read.names)
        return [
            {"user": click["user"], "amount": click["amount"], "name": name["name"]}
            for at, click in enumerate(clicks)
            for other, name in enumerate(names)
            if click["user"] == name["user"] and (at >= before[0] or other >= before[1])
        ]

    return fold


def _seen() -> Fold:
    items: set[str] = set()

    def fold(read: Read) -> list[dict[str, Any]]:
        new = {click["item"] for click in read.clicks} - items
        items.update(new)
        return [{"item": item} for item in new]

    return fold


def _liked() -> Fold:
    pairs: set[tuple[str, str]] = set()

    def fold(read: Read) -> list[dict[str, Any]]:
        new = {(click["user"], click["item"]) for click in read.clicks} - pairs
        pairs.update(new)
        users = {user for user, _ in new}
        return [{"user": user, "n": sum(one == user for one, _ in pairs)} for user in users]

    return fold


def _windows() -> Fold:
    """A window comes out in the step whose watermark has passed its end."""
    closed = _closed_windows(Watermarks())

    def fold(read: Read) -> list[dict[str, Any]]:
        return [{"start": start, "user": user, "n": n} for start, user, n in closed(read)]

    return fold


def _closed_windows(mark: Watermarks) -> Callable[[Read], list[tuple[int, str, int]]]:
    """Start, user and count of the windows that a step closes, which moves the watermark."""
    counts: Counter[tuple[int, str]] = Counter()

    def fold(read: Read) -> list[tuple[int, str, int]]:
        for click in read.clicks:
            start = click["ts"] // WINDOW_S * WINDOW_S
            if start + WINDOW_S > mark.late:
                counts[start, click["user"]] += 1
        closed = sorted(key for key in counts if key[0] + WINDOW_S <= mark.now)
        mark.moves([click["ts"] for click in read.clicks])
        return [(start, user, counts.pop((start, user))) for start, user in closed]

    return fold


def _doubled(nodes: int) -> Fold:
    """Windows of windows. On several nodes the second query goes by a watermark of its own, of the ends of the windows
    that it has got; on one node both are one query."""
    mark, wide_now_ms = Watermarks(), 0
    closed = _closed_windows(mark)
    wide: Counter[int] = Counter()

    def fold(read: Read) -> list[dict[str, Any]]:
        nonlocal wide_now_ms
        one_ms = mark.now * 1_000
        windows = closed(read)
        for start, _, n in windows:
            wide[start // WIDE_S * WIDE_S] += n
        now_ms = one_ms if nodes == 1 else wide_now_ms
        over = sorted(start for start in wide if (start + WIDE_S) * 1_000 <= now_ms)
        last_ms = max(((start + WINDOW_S) * 1_000 - 1 for start, _, _ in windows), default=0)
        wide_now_ms = max(wide_now_ms, last_ms - DELAY_S * 1_000)
        return [{"start": start, "n": wide.pop(start)} for start in over]

    return fold


def _summed() -> Fold:
    """How many clicks of each user the windows that are closed hold."""
    closed = _closed_windows(Watermarks())
    sums: Counter[str] = Counter()

    def fold(read: Read) -> list[dict[str, Any]]:
        windows = closed(read)
        for _, user, n in windows:
            sums[user] += n
        return [{"user": user, "n": sums[user]} for user in {user for _, user, _ in windows}]

    return fold


def _paired() -> Fold:
    """Each click with the names of its user in the seconds after it; without one when none can come any more."""
    mark = Watermarks(operators=2)
    clicks: list[dict[str, Any]] = []
    names: list[dict[str, Any]] = []

    def pairs(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for click in some:
            for name in others:
                if name["user"] == click["user"] and 0 <= name["ts"] - click["ts"] <= PAIRED_S:
                    click["paired"] = True
                    found.append(_pair(click, name["name"]))
        return found

    def fold(read: Read) -> list[dict[str, Any]]:
        came = [{**click} for click in read.clicks if click["ts"] > mark.late]
        known = [name for name in read.names if name["ts"] > mark.late]
        out = pairs(came, names)
        # A click that no name can follow any more is not kept for those of this very step.
        followed = mark.now - PAIRED_S
        out += [_pair(one, "") for one in came if one["ts"] < followed and not one.get("paired")]
        clicks.extend(click for click in came if click["ts"] >= followed)
        out += pairs(clicks, known)
        names.extend(known)
        over = [click for click in clicks if click["ts"] < followed]
        out += [_pair(one, "") for one in over if not one.get("paired")]
        clicks[:] = [click for click in clicks if click["ts"] >= followed]
        mark.moves([click["ts"] for click in read.clicks], [name["ts"] for name in read.names])
        return out

    return fold


def _pair(click: dict[str, Any], name: str) -> dict[str, Any]:
    return {"user": click["user"], "amount": click["amount"], "at": click["ts"], "name": name}


def _fresh() -> Fold:
    """Each user once for a time, unless that is late."""
    mark = Watermarks()
    known: set[tuple[str, int]] = set()

    def fold(read: Read) -> list[dict[str, Any]]:
        new = {(click["user"], click["ts"]) for click in read.clicks if click["ts"] > mark.late} - known
        known.update(new)
        mark.moves([click["ts"] for click in read.clicks])
        return [{"user": user, "at": at} for user, at in new]

    return fold


def _expired() -> Fold:
    """How often a user has come, once the watermark is so far behind the first time that he did."""
    mark = Watermarks()
    counts: dict[str, list[int]] = {}

    def fold(read: Read) -> list[dict[str, Any]]:
        by_user: dict[str, list[int]] = defaultdict(list)
        for click in read.clicks:
            if click["ts"] > mark.late:
                by_user[click["user"]].append(click["ts"])
        for user, times in by_user.items():
            counts.setdefault(user, [0, max(times) + EXPIRES_S])[0] += len(times)
        over = sorted(user for user, (_, expires) in counts.items() if expires < mark.now)
        mark.moves([click["ts"] for click in read.clicks])
        return [{"user": user, "n": n, "at": expires} for user in over for n, expires in (counts.pop(user),)]

    return fold


def _reminded() -> Fold:
    """How often a user has come, some time after the first step in which he did, by the time of steps."""
    counts: dict[str, list[int]] = {}

    def fold(read: Read) -> list[dict[str, Any]]:
        for click in read.clicks:
            counts.setdefault(click["user"], [0, read.now_ms + REMINDS_MS])[0] += 1
        over = sorted(user for user, (_, due_ms) in counts.items() if due_ms < read.now_ms)
        return [{"user": user, "n": counts.pop(user)[0], "at": read.now_ms} for user in over]

    return fold


def _sessions() -> Fold:
    """As `_windows`; a session ends some seconds after its last click, and clicks that touch are of one."""
    mark = Watermarks()
    known: dict[str, list[tuple[int, int, int]]] = defaultdict(list)

    def fold(read: Read) -> list[dict[str, Any]]:
        for click in read.clicks:
            if click["ts"] + GAP_S > mark.late:
                known[click["user"]].append((click["ts"], click["ts"] + GAP_S, 1))
        out = []
        for user, several in known.items():
            merged: list[tuple[int, int, int]] = []
            for start, end, n in sorted(several):
                if merged and start <= merged[-1][1]:
                    first, last, before = merged.pop()
                    merged.append((first, max(last, end), before + n))
                else:
                    merged.append((start, end, n))
            known[user] = [one for one in merged if one[1] > mark.now]
            closed = [one for one in merged if one[1] <= mark.now]
            out += [{"user": user, "start": start, "end": end, "n": n} for start, end, n in closed]
        mark.moves([click["ts"] for click in read.clicks])
        return out

    return fold


def _counts() -> Fold:
    counts: Counter[str] = Counter()

    def fold(read: Read) -> list[dict[str, Any]]:
        items = [click["item"] for click in read.clicks]
        counts.update(items)
        return [{"item": item, "n": counts[item]} for item in set(items)]

    return fold


def _extremes() -> Fold:
    amounts: dict[str, list[int]] = defaultdict(list)

    def fold(read: Read) -> list[dict[str, Any]]:
        for click in read.clicks:
            amounts[click["user"]].append(click["amount"])
        return [
            {"user": user, "n": len(all_), "total": sum(all_), "least": min(all_), "most": max(all_)}
            for user in {click["user"] for click in read.clicks}
            for all_ in [amounts[user]]
        ]

    return fold


FOLDS: Mapping[str, Callable[[int], Fold]] = {
    "spent": lambda _: _totals(),
    "logged": lambda _: _totals(),
    "grand": lambda _: _grand(),
    "named": lambda _: _named(),
    "seen": lambda _: _seen(),
    "liked": lambda _: _liked(),
    "windows": lambda _: _windows(),
    "paired": lambda _: _paired(),
    "fresh": lambda _: _fresh(),
    "expired": lambda _: _expired(),
    "reminded": lambda _: _reminded(),
    "doubled": _doubled,
    "summed": lambda _: _summed(),
    "combined": lambda _: _extremes(),
    "closed": lambda _: _windows(),
    "sessions": lambda _: _sessions(),
    "placed": lambda _: _totals(),
    "added": lambda _: _totals(),
    "bought": lambda _: _counts(),
    "passed": lambda _: _as_read("amount"),
    "filed": lambda _: _as_read("item"),
    "texts": lambda _: _texts(),
}
"""By query: given the number of nodes."""
