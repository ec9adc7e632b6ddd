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
from tests.support.exchanged_folds import FOLDS, Read
from tests.support.following import until_read, until_status
from tests.support.patience import HANG_S
from tests.support.processes import ROOT, run_kcontrol
from tests.support.topics import create_topic

FILE = ROOT / "tests" / "pipelines" / "exchanged.py"
PARTITIONS = {"clicks": 3, "names": 4}
OUTPUTS = {
    **{"spent": 4, "logged": 3, "grand": 1, "named": 3, "seen": 3, "liked": 2, "windows": 3},
    **{"paired": 3, "fresh": 3, "expired": 2, "reminded": 3, "doubled": 3, "summed": 2},
    **{"combined": 2, "closed": 3, "added": 3, "bought": 2, "sessions": 3, "placed": 4},
    **{"passed": 1, "filed": 2, "texts": 3},
}
WITH_NAMES = frozenset({"named", "paired"})
"""Queries that read both inputs."""
USERS, ITEMS = 11, 40
BEGIN_S, LATE_S = 1_700_000_000, 20
"""Of event times: they follow the records, each up to so much behind."""

Rows = Counter[str]
"""Records of one step in one output, as JSON with sorted keys."""


@dataclass
class Exchanged:
    """One pipeline of its own name, with its topics. shards: 0: as its file says. keep: so many checkpoints. users: who buys.
    rebalances: state is divided anew by itself. plan_once: False: Spark plans each step.
    reader: the node that alone reads its inputs; None: all do. partitions: of its inputs. seed: of its records."""

    settings: ClusterSettings
    queries: tuple[str, ...]
    nodes: int = 2
    shards: int = field(default=0, kw_only=True)
    keep: int = field(default=2, kw_only=True)
    reader: int | None = field(default=None, kw_only=True)
    rebalances: bool = field(default=False, kw_only=True)
    plan_once: bool = field(default=True, kw_only=True)
    users: Sequence[str] = field(default=tuple(f"u{number}" for number in range(USERS)), kw_only=True)
    partitions: Mapping[str, int] = field(default_factory=lambda: PARTITIONS)
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    produced: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        print(f"seed {self.seed}")  # noqa: T201 - shown by pytest when a test fails
        self.name = f"exchanged-{secrets.token_hex(3)}"
        self._random = random.Random(self.seed)
        self.inputs = ("clicks", "names") if WITH_NAMES & {*self.queries} else ("clicks",)
        for stem in (*self.inputs, *self.queries):
            create_topic(self.settings, f"{self.name}-{stem}", {**self.partitions, **OUTPUTS}[stem])

    @property
    def env(self) -> dict[str, str]:
        return {
            "ORDERS_PIPELINE": self.name,
            "EXCHANGED_QUERIES": ",".join(self.queries),
            "EXCHANGED_NODES": str(self.nodes),
            "EXCHANGED_SHARDS": str(self.shards or ""),
            "EXCHANGED_KEEP": str(self.keep),
            "EXCHANGED_READER": "" if self.reader is None else str(self.reader),
            "EXCHANGED_PLAN_EACH_STEP": "" if self.plan_once else "yes",
            **({"EXCHANGED_REBALANCES": "yes", "EXCHANGED_EVERY": "3 s"} if self.rebalances else {}),
            "KCONTROL_BOOTSTRAP_SERVERS": self.settings.bootstrap_servers,
        }

    def produce(self, count: int) -> None:
        """So many records into each input, each into any partition."""
        producer = Producer(
            {"bootstrap.servers": self.settings.bootstrap_servers, "enable.idempotence": True}
        )
        for _ in range(count):
            user = self.users[self._random.randrange(len(self.users))]
            click = {
                "user": user,
                "item": f"i{self._random.randrange(ITEMS)}",
                "amount": self._random.randrange(100),
                "ts": BEGIN_S + self.produced["clicks"] // 4 - self._random.randrange(LATE_S),
            }
            known = {
                "user": user,
                "name": f"n{self._random.randrange(1_000)}",
                "ts": click["ts"] + self._random.randrange(8),
            }
            for stem, value in (("clicks", click), ("names", known)):
                if stem in self.inputs and (stem == "clicks" or self._random.random() < 0.1):
                    partition = self._random.randrange(self.partitions[stem])
                    producer.produce(f"{self.name}-{stem}", json.dumps(value), partition=partition)
                    self.produced[stem] += 1
        assert producer.flush(HANG_S) == 0

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
        """Compare all outputs with the oracle, step by step, without what is void. Returns the steps."""
        steps = self.steps()
        assert [boundary["step"] for boundary in steps] == list(range(1, len(steps) + 1))
        steps, void = _not_void(steps)
        records = {stem: self._records(stem) for stem in self.inputs}
        read: Counter[str] = Counter()
        folds = {query: FOLDS[query](self.nodes) for query in self.queries}
        expected: dict[str, dict[int, Rows]] = {query: {} for query in self.queries}
        for boundary in steps:
            of_step: dict[str, list[dict[str, Any]]] = {stem: [] for stem in self.inputs}
            for piece in boundary["inputs"]:
                for offset in range(piece["from"], piece["to"]):
                    of_step[piece["input"]].append(records[piece["input"]][piece["partition"], offset])
                read[piece["input"]] += piece["records"]
            read_by_step = Read(boundary["now_ms"], of_step["clicks"], of_step.get("names", []))
            for query, fold in folds.items():
                rows = Counter(_text(row) for row in fold(read_by_step))
                expected[query] |= {boundary["step"]: rows} if rows else {}
        assert read == self.produced
        for query in self.queries:
            written = {step: rows for step, rows in self.written(query).items() if step not in void}
            assert written == expected[query], f"output {query} (seed {self.seed})"
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


def _not_void(steps: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], set[int]]:
    """Those that count, and the numbers of those that do not."""
    left: list[dict[str, Any]] = []
    for boundary in steps:
        back = boundary["reset"]
        left = [*left, boundary] if back is None else [one for one in left if one["step"] <= back["to_step"]]
    return left, {boundary["step"] for boundary in steps} - {boundary["step"] for boundary in left}


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)
