"""The demo's proof must be able to fail: each way of being wrong shows in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from examples.flights_proof import Found, Proof, prove

TOTALS = {"carrier": "UA", "origin": "EWR", "flights": 3, "route": "UA-EWR"}
LATE = {"carrier": "UA", "flight": 1545, "dep_delay": 20}


@dataclass
class Run:
    """Two steps of one partition each way."""

    steps: list[dict[str, Any]]
    delays: list[Found]
    delayed: list[Found]


def run() -> Run:
    def step(number: int, read: tuple[int, int], outputs: dict[str, tuple[int, int]]) -> dict[str, Any]:
        def piece(begin: int, end: int) -> dict[str, Any]:
            return {"partition": 0, "from": begin, "to": end, "records": end - begin}

        written = [{"topic": topic, **piece(*offsets)} for topic, offsets in outputs.items()]
        return {"step": number, "inputs": [piece(*read)], "outputs": written}

    return Run(
        # Offsets 1 of both outputs are markers.
        steps=[
            step(1, (0, 2), {"delays": (0, 1), "delayed": (0, 1)}),
            step(2, (2, 3), {"delays": (2, 3), "delayed": (2, 3)}),
        ],
        delays=[
            Found("delays", 0, 0, 1, "UA-EWR", {**TOTALS, "flights": 2}),
            Found("delays", 0, 2, 2, "UA-EWR", TOTALS),
        ],
        delayed=[Found("delayed", 0, 0, 1, None, LATE), Found("delayed", 0, 2, 2, None, LATE)],
    )


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """What plain Spark would have written: the same flight was late twice."""
    for name, rows in (("delays", [TOTALS]), ("delayed", [LATE, LATE])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.json").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def proof(found: Run, plain: Path) -> Proof:
    return prove(found.steps, found.delays, found.delayed, plain, {0: 3})


def test_it_holds_for_a_right_run(plain: Path) -> None:
    assert proof(run(), plain) == Proof()


def test_input_that_somebody_had_skipped_is_not_lost(plain: Path) -> None:
    skipped = run()
    skipped.steps[1]["skipped_ranges"] = [{"partition": 0, "from": 2, "to": 4}]
    skipped.steps[1]["inputs"][0] |= {"from": 4, "to": 5}
    assert prove(skipped.steps, skipped.delays, skipped.delayed, plain, {0: 5}) == Proof()
    skipped.steps[1]["skipped_ranges"] = [{"partition": 0, "from": 1, "to": 4}]
    assert prove(skipped.steps, skipped.delays, skipped.delayed, plain, {0: 5}).lost == 2


def lose_a_flight(wrong: Run) -> None:
    wrong.delayed.pop()
    wrong.steps[1]["outputs"].pop()


def double_a_flight(wrong: Run) -> None:
    wrong.delayed.append(replace(wrong.delayed[1], offset=3))
    wrong.steps[1]["outputs"][1] |= {"to": 4, "records": 2}


def tear_a_step(wrong: Run) -> None:
    wrong.delays.pop(0)


def show_an_aborted_record(wrong: Run) -> None:
    wrong.delays.append(replace(wrong.delays[1], offset=3, step=3))


def alter_the_totals(wrong: Run) -> None:
    wrong.delays[1] = replace(wrong.delays[1], value={**TOTALS, "flights": 4})


def skip_input(wrong: Run) -> None:
    wrong.steps[1]["inputs"][0]["to"] = 2


def read_input_twice(wrong: Run) -> None:
    wrong.steps[1]["inputs"][0]["from"] = 1


@pytest.mark.parametrize(
    ("damage", "shows"),
    [
        (lose_a_flight, lambda found: found.lost == 1),
        (double_a_flight, lambda found: found.duplicated == 1),
        (tear_a_step, lambda found: found.torn == 1),
        (show_an_aborted_record, lambda found: found.torn == 1),
        (alter_the_totals, lambda found: any("UA-EWR" in problem for problem in found.problems)),
        (skip_input, lambda found: found.lost == 1),
        (read_input_twice, lambda found: found.duplicated == 1),
    ],
)
def test_it_fails_for_a_wrong_one(
    damage: Callable[[Run], None], shows: Callable[[Proof], bool], plain: Path
) -> None:
    wrong = run()
    damage(wrong)
    found = proof(wrong, plain)
    assert shows(found)
    assert not found.holds
