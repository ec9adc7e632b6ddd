"""Questions about the state of three nodes, as of the newest checkpoint, while they make steps: how long an answer takes once
the server's Spark is warm, and what the steps lose by it.

One pipeline and one `kcontrol query-server` run all the time; between blocks of steps the questions begin and end, in turns
(without, with, with, without, ...), so that both sides are measured in the same processes. The steps next to such a change
are counted to neither. Each answer is checked: every node has keys, and together they have all of them.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.blocks import SETTLE_STEPS, SIDES, WITH, WITHOUT, await_steps, block_ms
from bench.figures import Spread
from bench.plan import Places, alternating
from bench.questions.client import Asker
from bench.running import Running, address_said, running
from bench.topics import KEYS, create_topics, delete_topics, fill
from examples.processes import KcontrolProcess

NODES = PARTITIONS = 3
CORES = 2
WORKLOAD = "aggregate"
STEP_RECORDS = 1_000
CHECKPOINT_EVERY = "5 s"
"""So each answer is at most a few seconds old, and questions meet new steps."""
ASK_EVERY_S = 2.0
WARM_UP_STEPS = 60
WARM_UP_QUESTIONS = 5
START_TIMEOUT_S = 180.0
SQL = "SELECT node, count(*) AS keys FROM written__aggregate GROUP BY node"


@dataclass(frozen=True)
class Asking:
    """How much is measured. steps: of each block, of which there are twice as many as repeats."""

    steps: int
    repeats: int


FULL, QUICK = Asking(40, 4), Asking(15, 1)


@dataclass(frozen=True)
class QuestionCost:
    """without, with_: medians of blocks, milliseconds from step to step. times_as_long: with questions, to without: 1 is no
    effect. known_ms: answers as of a step that had been asked about; new_ms: as of a new one, whose state was copied first;
    None: there was none."""

    every_s: float
    without: Spread
    with_: Spread
    times_as_long: float
    known_ms: Spread | None
    new_ms: Spread | None


def measure_questions(bootstrap_servers: str, quick: bool, say: Callable[[str], None]) -> QuestionCost:
    """Raises RuntimeError when steps stand still, or an answer is not what it must be."""
    asking = QUICK if quick else FULL
    blocks = list(alternating(SIDES, asking.repeats))
    source, name = (f"bench-questions-{uuid.uuid4().hex[:8]}{end}" for end in ("-source", ""))
    steps = 4 * WARM_UP_STEPS + 3 * len(blocks) * (asking.steps + 2 * SETTLE_STEPS)
    create_topics(bootstrap_servers, source, name, partitions=PARTITIONS)
    fill(bootstrap_servers, source, steps * STEP_RECORDS, PARTITIONS, by_key=True)
    places = Places(bootstrap_servers, source, PARTITIONS, CORES)
    try:
        # First the server, which gives way to nodes that have both processors full.
        with (
            query_server(bootstrap_servers) as url,
            running(
                *(places, name, WORKLOAD, STEP_RECORDS, NODES),
                checkpoint_every=CHECKPOINT_EVERY,
                meets="partitioned",
            ) as pipeline,
        ):
            await_steps(pipeline, WARM_UP_STEPS)
            asker = Asker(url, name, SQL, check)
            # A cold server beside nodes that have both processors full takes minutes for its first answer.
            with pipeline.paused():
                for _ in range(WARM_UP_QUESTIONS):
                    asker.ask()
            warm = len(asker.answers)
            say(f"the first answers took {', '.join(f'{each.ms:,.0f}' for each in asker.answers)} ms")
            times = _in_blocks(pipeline, blocks, asking.steps, asker)
    finally:
        delete_topics(bootstrap_servers, source, name)
    without, with_ = Spread.of(times[WITHOUT]), Spread.of(times[WITH])
    answers = asker.answers[warm:]
    known, new = ([each.ms for each in answers if each.is_new is is_new] for is_new in (False, True))
    return QuestionCost(
        *(ASK_EVERY_S, without, with_, with_.median / without.median),
        Spread.of(known) if known else None,
        Spread.of(new) if new else None,
    )


def _in_blocks(pipeline: Running, blocks: list[str], steps: int, asker: Asker) -> Mapping[str, list[float]]:
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for side in blocks:
        if side == WITH:
            with asker.asking(ASK_EVERY_S):
                times[side].append(block_ms(pipeline, steps))
        else:
            times[side].append(block_ms(pipeline, steps))
    return times


def check(rows: list[Mapping[str, Any]]) -> None:
    """Raises RuntimeError unless every node has keys, and together they have each once."""
    keys = {int(row["node"]): int(row["keys"]) for row in rows}
    if len(rows) != NODES or keys.keys() != set(range(NODES)) or sum(keys.values()) != KEYS:
        raise RuntimeError(f"an answer names {keys} keys by node instead of {KEYS} of {NODES} nodes")


@contextmanager
def query_server(bootstrap_servers: str) -> Iterator[str]:
    """Its address, once it answers. Raises RuntimeError when it does not start."""
    with tempfile.TemporaryDirectory(prefix="bench-questions-") as scratch:
        arguments = ["query-server", "--port", "0", "--json", "--scratch", str(Path(scratch) / "copies")]
        process = KcontrolProcess(
            "query-server", [*arguments, "--bootstrap-servers", bootstrap_servers], Path(scratch)
        )
        process.start()
        try:
            yield address_said(process, "query_server", START_TIMEOUT_S)
        finally:
            process.stop()
