"""What `kcontrol replay` prints, and the options that it refuses before it starts anything."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kcontrol.apps.rerun import refuse, say_made_otherwise, verdict
from kcontrol.cli.main import run_command
from kcontrol.cli.replay import PrintedRecords
from kcontrol.core.model import Environment
from kcontrol.core.step.differences import Difference
from kcontrol.errors import DigestMismatchError
from tests.support.replayed import record, replayed
from tests.unit.core.made import boundary

DIFFERENCE = Difference(4, "output", "totals", 1, (3, "00"), (2, "ff"))


def test_records_are_printed_up_to_the_limit_of_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    printed = PrintedRecords(limit=2, as_json=False)
    assert printed.deliver(replayed(1, record(value=b"a"), last_node=False)) == 0
    assert printed.deliver(replayed(2, record(value=b"b"), last_node=False)) == 0
    assert printed.deliver(replayed(1, record(value=b"c"), record(value=b"d"))) == 1, "of both nodes together"
    assert printed.deliver(replayed(2, record(value=b"e"))) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[-1]) for line in lines] == [("1", "a"), ("2", "b"), ("1", "c"), ("2", "e")]


def test_records_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    PrintedRecords(limit=1_000, as_json=True).deliver(
        replayed(3, record(value=b"a\nb"), record("copies", key=None))
    )
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["step"], each["output"], each["key"], each["value"]) for each in found] == [
        (3, "totals", "k", "a\nb"),
        (3, "copies", None, "v"),
    ]


def test_what_steps_were_made_with_is_said_once_for_each_change_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = Environment("x86_64", "0.1.0", "3.11.7", "4.1.1", "17", "19.0.0", "2.3.0", "2.2.0", "")
    other = replace(here, numpy="1.26.0")
    made = [
        replace(boundary(step), environments=(other if step in (2, 3, 5) else here,)) for step in range(1, 6)
    ]
    say_made_otherwise(made, 0, here)
    clause = "was made with numpy 1.26.0; here is numpy 2.2.0; what differs may differ because of that"
    assert capsys.readouterr().err.splitlines() == [
        f"step 2 {clause}",
        "step 4 was made as here",
        f"step 5 {clause}",
    ]


def test_verdicts() -> None:
    assert verdict(0, 3, [], as_json=False) == "step 3: agrees"
    assert "output 'totals' partition 1 differs" in verdict(0, 4, [DIFFERENCE], as_json=False)
    facts = json.loads(verdict(0, 4, [DIFFERENCE], as_json=True))
    assert (facts["step"], facts["agrees"], facts["differences"][0]["partition"]) == (4, False, 1)
    refuse("p", [])
    with pytest.raises(
        DigestMismatchError, match="pipeline 'p': 1 differences from the log, the first: step 4"
    ):
        refuse("p", [DIFFERENCE])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--master", "spark://host:7077"], "must run on this machine"),
        (["--topic", "totals"], "'totals' is not OUTPUT=TOPIC"),
        (["--topic", "=again"], "is not OUTPUT=TOPIC"),
        (["--topic", "totals=a", "--topic", "totals=b"], "output 'totals' is given two topics, 'a' and 'b'"),
        (["--topic", "totals=a", "--limit", "3"], "a topic gets every record"),
        (["--overwrite"], "--overwrite is for --output DIR"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_options_that_make_no_sense_end_with_2(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["replay", "p", "--bootstrap-servers", "127.0.0.1:1", *options]) == 2
    assert said in capsys.readouterr().err
