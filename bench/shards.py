"""What a shard costs a step on a node that does not own it: the same steps with 4 shards owned, of 4, of 16 and of 64.

One node's part of the aggregate behind an exchange, as the sink runs it (`OwnedPartitions`), with Spark and without Kafka.
All take the same rows, of keys whose shards are owned in each. They run in one session and take turns step by step, so that a
machine that drifts is held against none of them.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.figures import Spread
from bench.plan import Owning
from kcontrol.adapters.spark.session.build import session
from kcontrol.adapters.spark.session.conf import with_setting
from kcontrol.adapters.spark.state.shards import COMMIT_VALIDATION, OwnedShards
from tests.support.sharded import Kind, Node, Row

OWNED = 4
SHARDS = (4, 16, 64)
"""Of which the owned ones are the first. Powers of two: a key of one of them is of the same one by any lesser number."""
_POLLING = "spark.sql.streaming.pollingDelay"
_IDLE_POLL = "200ms"
"""How often those whose turn it is not look for a step: seldom, or they would be in the way of the one whose turn it is."""
_TIMEOUT_S = 600

StepTimes = Mapping[int, Sequence[float]]
"""By the number of shards, what each counted step took, in ms."""


@dataclass(frozen=True)
class ShardCost:
    """Milliseconds of a step. times_as_long: as the median of the first, where all shards are owned. not_owned_ms: what
    each that is not owned adds to the median; None where all are."""

    shards: int
    owned: int
    step_ms: Spread
    times_as_long: float
    not_owned_ms: float | None


def measure_shards(plan: Owning, say: Callable[[str], None]) -> list[ShardCost]:
    """All numbers of shards, in a new process. Raises RuntimeError, with what the process said, if it fails."""
    say(
        f"{plan.warm_up_steps} + {plan.steps} steps of {plan.step_records:,} records, each with {SHARDS} shards"
    )
    numbers = map(str, (plan.step_records, plan.warm_up_steps, plan.steps))
    done = subprocess.run(
        [sys.executable, "-m", "bench.shards", *numbers],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the steps with {SHARDS} shards failed:\n{done.stderr[-4_000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    costs = costs_of({int(shards): times_ms for shards, times_ms in found.items()})
    for each in costs:
        say(f"{each.owned} of {each.shards} shards: {each.step_ms.median:.0f} ms a step")
    return costs


def costs_of(times_ms: StepTimes) -> list[ShardCost]:
    """By the number of shards, least first: there all are owned."""
    spreads = {shards: Spread.of(times_ms[shards]) for shards in sorted(times_ms)}
    base = spreads[min(spreads)].median
    return [
        ShardCost(
            shards,
            OWNED,
            spread,
            spread.median / base,
            (spread.median - base) / (shards - OWNED) if shards > OWNED else None,
        )
        for shards, spread in spreads.items()
    ]


# --- in the process that is measured ------------------------------------------------------------------------


def _total(rows: DataFrame) -> DataFrame:
    return rows.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def _owned_users(spark: SparkSession, users: int) -> list[str]:
    """So many keys whose shards are owned."""
    # One of 16 is of the first 4 of 64; twice as many are looked at as there are likely to be.
    some = spark.range(users * 2 * max(SHARDS) // OWNED).select(F.concat(F.lit("u"), "id").alias("user"))
    owned = some.where(F.pmod(F.hash("user"), F.lit(max(SHARDS))) < OWNED).orderBy("user").limit(users)
    found = [str(row[0]) for row in owned.collect()]
    if len(found) < users:
        raise RuntimeError(f"only {len(found)} of {users} keys are of shards 0 to {OWNED - 1}")
    return found


def _timed_ms(node: Node, step: int, rows: Sequence[Row]) -> float:
    """What Spark took for the batch of a step, from its plan to its record."""
    node.put(step, rows)
    node.step(step)
    assert node.query is not None
    batches = [
        each
        for each in node.query.recentProgress
        if each.batchId == step - 1 and "addBatch" in each.durationMs
    ]
    return float(batches[-1].durationMs["triggerExecution"])


def _steps(records: int, users: Sequence[str]) -> Iterable[list[Row]]:
    """Rows of one step after the other, for ever."""
    dice = random.Random(1)
    while True:
        yield [(dice.choice(users), dice.randrange(100), 0) for _ in range(records)]


def _measure(plan: Owning) -> StepTimes:
    times_ms: dict[int, list[float]] = {shards: [] for shards in SHARDS}
    with tempfile.TemporaryDirectory(prefix="bench-shards-") as scratch, ExitStack() as stack:
        spark = session("bench-shards", "local[2]")
        stack.callback(spark.stop)
        for name, value in ((COMMIT_VALIDATION, "false"), (_POLLING, _IDLE_POLL)):
            stack.enter_context(with_setting(spark, name, value))
        made = _steps(plan.step_records, _owned_users(spark, plan.step_records))
        nodes = {}
        for shards in SHARDS:
            owned = OwnedShards(frozenset(range(OWNED)), shards)
            nodes[shards] = Node(spark, Path(scratch, str(shards)), 0, Kind(_total, "update"), owned)
            stack.callback(nodes[shards].stop)
        for step, rows in zip(range(1, plan.warm_up_steps + plan.steps + 1), made, strict=False):
            turns = SHARDS if step % 2 else SHARDS[::-1]
            for shards in turns:
                took_ms = _timed_ms(nodes[shards], step, rows)
                if step > plan.warm_up_steps:
                    times_ms[shards].append(took_ms)
            outs = {shards: sorted(node.out.pop(step)) for shards, node in nodes.items()}
            if any(out != outs[OWNED] for out in outs.values()):
                raise RuntimeError(f"step {step}: not all gave the same")
    return times_ms


if __name__ == "__main__":
    print(json.dumps(_measure(Owning(*map(int, sys.argv[1:])))))
