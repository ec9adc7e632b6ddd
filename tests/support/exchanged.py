"""Data, oracle and names for `tests/pipelines/exchanged.py`.

The oracle takes the divisions from the log of steps, reads the inputs itself, computes what each step must have written,
whichever node wrote it, and compares with what a read_committed consumer finds in the outputs.
"""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus
from tests.support.following import until_read, until_status
from tests.support.processes import ROOT, run_kcontrol
from tests.support.topics import create_topic

FILE = ROOT / "tests" / "pipelines" / "exchanged.py"
PARTITIONS = {"clicks": 3, "names": 4}
OUTPUTS = {"spent": 4, "logged": 3, "grand": 1, "named": 3, "seen": 3, "liked": 2, "windows": 3}
USERS, ITEMS = 11, 40
BEGIN_S, LATE_S = 1_700_000_000, 20
"""Of event times: they follow the records, each up to so much behind."""
WINDOW_S, DELAY_S = 10, 5

Rows = Counter[str]
"""Records of one step in one output, as JSON with sorted keys."""
Fold = Callable[[Mapping[str, list[dict[str, Any]]]], Sequence[dict[str, Any]]]
"""From the records that a step read of each input to those that it writes; keeps what it has seen."""


@dataclass
class Exchanged:
    """One pipeline of its own name, with its topics. seed: of its records."""

    settings: ClusterSettings
    queries: tuple[str, ...]
    nodes: int = 2
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    produced: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        print(f"seed {self.seed}")  # noqa: T201 - shown by pytest when a test fails
        self.name = f"exchanged-{secrets.token_hex(3)}"
        self._random = random.Random(self.seed)
        self.inputs = ("clicks", "names") if "named" in self.queries else ("clicks",)
        for stem in (*self.inputs, *self.queries):
            create_topic(self.settings, f"{self.name}-{stem}", {**PARTITIONS, **OUTPUTS}[stem])

    @property
    def env(self) -> dict[str, str]:
        return {
            "ORDERS_PIPELINE": self.name,
            "EXCHANGED_QUERIES": ",".join(self.queries),
            "EXCHANGED_NODES": str(self.nodes),
            "KCONTROL_BOOTSTRAP_SERVERS": self.settings.bootstrap_servers,
        }

    def produce(self, count: int) -> None:
        """So many records into each input, each into any partition."""
        producer = Producer(
            {"bootstrap.servers": self.settings.bootstrap_servers, "enable.idempotence": True}
        )
        for _ in range(count):
            user = f"u{self._random.randrange(USERS)}"
            click = {
                "user": user,
                "item": f"i{self._random.randrange(ITEMS)}",
                "amount": self._random.randrange(100),
                "ts": BEGIN_S + self.produced["clicks"] // 4 - self._random.randrange(LATE_S),
            }
            known = {"user": user, "name": f"n{self._random.randrange(1_000)}"}
            for stem, value in (("clicks", click), ("names", known)):
                if stem in self.inputs and (stem == "clicks" or self._random.random() < 0.1):
                    partition = self._random.randrange(PARTITIONS[stem])
                    producer.produce(f"{self.name}-{stem}", json.dumps(value), partition=partition)
                    self.produced[stem] += 1
        assert producer.flush(60) == 0

    def until_done(self, what: str, timeout_s: float) -> None:
        """Wait until all that was produced is committed."""
        until_read(
            self.settings,
            self.name,
            lambda read: all(read[name] == self.produced[name] for name in self.inputs),
            what,
            timeout_s,
            lambda: run_kcontrol("status", self.name, env=self.env).stdout,
        )

    def until_status(
        self, condition: Callable[[PipelineStatus], object], what: str, timeout_s: float
    ) -> None:
        until_status(self.settings, self.name, condition, what, timeout_s)

    def steps(self) -> list[dict[str, Any]]:
        """All boundaries, as the command line prints them."""
        result = run_kcontrol("steps", self.name, "--json", env=self.env)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def check(self) -> list[dict[str, Any]]:
        """Compare all outputs with the oracle, step by step. Returns the steps."""
        steps = self.steps()
        assert [boundary["step"] for boundary in steps] == list(range(1, len(steps) + 1))
        records = {stem: self._records(stem) for stem in self.inputs}
        read: Counter[str] = Counter()
        folds = {query: FOLDS[query]() for query in self.queries}
        expected: dict[str, dict[int, Rows]] = {query: {} for query in self.queries}
        for boundary in steps:
            of_step: dict[str, list[dict[str, Any]]] = {stem: [] for stem in self.inputs}
            for piece in boundary["inputs"]:
                for offset in range(piece["from"], piece["to"]):
                    of_step[piece["input"]].append(records[piece["input"]][piece["partition"], offset])
                read[piece["input"]] += piece["records"]
            for query, fold in folds.items():
                rows = Counter(_text(row) for row in fold(of_step))
                expected[query] |= {boundary["step"]: rows} if rows else {}
        assert read == self.produced
        for query in self.queries:
            assert self.written(query) == expected[query], f"output {query} (seed {self.seed})"
        return steps

    def written(self, stem: str) -> dict[int, Rows]:
        """By step, what a read_committed consumer finds in an output."""
        found: dict[int, Rows] = defaultdict(Counter)
        for message in read_topics(self.settings.bootstrap_servers, [f"{self.name}-{stem}"]):
            step = int(dict(message.headers() or [])["step"])
            found[step][_text(json.loads(message.value() or b""))] += 1
        return dict(found)

    def _records(self, stem: str) -> dict[tuple[int, int], dict[str, Any]]:
        messages = read_topics(self.settings.bootstrap_servers, [f"{self.name}-{stem}"])
        return {(m.partition() or 0, m.offset() or 0): json.loads(m.value() or b"") for m in messages}


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


# --- what each query does -----------------------------------------------------------------------------------


def _totals() -> Fold:
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def fold(read: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        for click in read["clicks"]:
            n, total = sums[click["user"]]
            sums[click["user"]] = (n + 1, total + click["amount"])
        users = {click["user"] for click in read["clicks"]}
        return [{"user": user, "n": sums[user][0], "total": sums[user][1]} for user in users]

    return fold


def _grand() -> Fold:
    amounts: list[int] = []

    def fold(read: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        amounts.extend(click["amount"] for click in read["clicks"])
        return [{"n": len(amounts), "total": sum(amounts)}]

    return fold


def _named() -> Fold:
    clicks: list[dict[str, Any]] = []
    names: list[dict[str, Any]] = []

    def fold(read: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        before = (len(clicks), len(names))
        clicks.extend(read["clicks"])
        names.extend(read["names"])
        return [
            {"user": click["user"], "amount": click["amount"], "name": name["name"]}
            for at, click in enumerate(clicks)
            for other, name in enumerate(names)
            if click["user"] == name["user"] and (at >= before[0] or other >= before[1])
        ]

    return fold


def _seen() -> Fold:
    items: set[str] = set()

    def fold(read: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        new = {click["item"] for click in read["clicks"]} - items
        items.update(new)
        return [{"item": item} for item in new]

    return fold


def _liked() -> Fold:
    pairs: set[tuple[str, str]] = set()

    def fold(read: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        new = {(click["user"], click["item"]) for click in read["clicks"]} - pairs
        pairs.update(new)
        users = {user for user, _ in new}
        return [{"user": user, "n": sum(one == user for one, _ in pairs)} for user in users]

    return fold


def _windows() -> Fold:
    """A window comes out in the step whose watermark, that of all rows of the steps before, has passed its end; what the
    watermark before that had passed is left out."""
    counts: Counter[tuple[int, str]] = Counter()
    late_s = watermark_s = 0

    def fold(read: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        nonlocal late_s, watermark_s
        for click in read["clicks"]:
            start = click["ts"] // WINDOW_S * WINDOW_S
            if start + WINDOW_S > late_s:
                counts[start, click["user"]] += 1
        closed = sorted(key for key in counts if key[0] + WINDOW_S <= watermark_s)
        out = [{"start": start, "user": user, "n": counts.pop((start, user))} for start, user in closed]
        seen = max((click["ts"] for click in read["clicks"]), default=0)
        late_s, watermark_s = watermark_s, max(watermark_s, seen - DELAY_S)
        return out

    return fold


FOLDS: Mapping[str, Callable[[], Fold]] = {
    "spent": _totals,
    "logged": _totals,
    "grand": _grand,
    "named": _named,
    "seen": _seen,
    "liked": _liked,
    "windows": _windows,
}
