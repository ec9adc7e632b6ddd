"""`kcontrol layout --shards`: what it is given, what it says, and what it refuses before anything is started."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from kcontrol.apps.layout import LayoutPlan
from kcontrol.apps.resharding import MB, Recut, Rewritten, estimated_s
from kcontrol.cli import layout as command
from kcontrol.core.model import SavedPart
from kcontrol.core.step.layout_change import changed
from kcontrol.errors import ConfigurationError
from tests.unit.core.made import checkpoint
from tests.unit.core.test_shards_change import TWO

PART = SavedPart(1, 7, "m", 1, 1)
PLAN = LayoutPlan(
    *("p", 1, 4, changed(TWO, 2, shards=8), True),
    bytes_of=dict.fromkeys(range(4), 100 * MB),
    saved=checkpoint(4, 2),
)


@pytest.mark.parametrize(
    "options", [(), ("--shards", "8", "--nodes", "2"), ("--without", "1", "--shards", "auto")]
)
def test_one_thing_is_changed_at_a_time(options: tuple[str, ...]) -> None:
    done = CliRunner().invoke(command.layout, ["p", "--bootstrap-servers", "h:1", *options])
    assert isinstance(done.exception, ConfigurationError)
    assert "one after the other" in str(done.exception)


@pytest.mark.parametrize("number", ["0", "many", "-4"])
def test_a_number_of_shards_is_a_number(number: str) -> None:
    done = CliRunner().invoke(command.layout, ["p", "--bootstrap-servers", "h:1", "--shards", number])
    assert (done.exit_code, "--shards" in done.output) == (2, True), done.output


def test_what_takes_too_long_is_not_begun() -> None:
    assert PLAN.rewritten_bytes == 400 * MB
    minutes = estimated_s(400 * MB) / 60
    command._refuse_long(PLAN, minutes + 0.01)
    with pytest.raises(
        ConfigurationError, match=r"400\.0 MB of state .*--max-minutes is 0\.5.*Nothing was changed"
    ):
        command._refuse_long(PLAN, 0.5)
    command._refuse_long(replace(PLAN, change=changed(TWO, 2)), 0.001)


def test_what_was_done_is_said_with_its_speed() -> None:
    text = command._text(PLAN, True, Rewritten((PART,), 1, 8.0))
    assert "4 shards -> 8 on 2 nodes after step 4: 0 of 8 shards move (0 bytes)" in text
    assert "cut anew in 8.0 s, 50.0 MB/s" in text
    assert "start it with Layout(shuffle_partitions=8); kcontrol layout p --shards 4 goes back" in text
    planned = command._facts(PLAN, False, None)
    assert (planned["seconds"], planned["rewritten_bytes"]) == (None, 400 * MB)
    assert planned["estimated_seconds"] == round(estimated_s(400 * MB), 1)


def test_what_halving_moves_is_half_of_what_is_there() -> None:
    change = changed(replace(TWO, owners=(0, 1, 1, 0), assignment=1), 2, shards=2)
    plan = replace(PLAN, change=change)
    assert [move.shard for move in change.moves] == [2, 3]
    assert plan.moved_bytes == 200 * MB


def test_a_new_part_is_of_a_life_after_all_that_there_were() -> None:
    work = Recut("p", checkpoint(4, 2), 4, (0, 1), {1: 9})
    assert (work.life_of(PART), work.life_of(replace(PART, node=0))) == (10, 8)
