"""docs/howto/deliver.md as it is written there, with another address."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import Block, blocks_of
from tests.docs.expected import missing
from tests.docs.reading import commands
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.postgres import PASSWORD, Database
from tests.support.processes import KcontrolProcess, run_kcontrol, until

PAGE = "docs/howto/deliver.md"
ADDRESS = "postgresql://etl@db:5432/shop"
FORMAT = ("--format", "json")
"""The pipeline of the test has no format of its own."""


def _blocks() -> tuple[Block, Block, Block]:
    begin, shown, look = (each for each in blocks_of(PAGE) if each.rule == "run by")
    return begin, shown, look


def _statement(block: Block) -> str:
    """That psql is given."""
    words = next(each for each in commands(block.text) if each[0] == "psql")
    return words[words.index("-c") + 1]


def test_the_page_comes_true(
    settings: ClusterSettings, topic_factory: TopicFactory, database: Database, tmp_path: Path
) -> None:
    maker = StepsMaker(settings, topic_factory)
    text = (
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{maker.settings.prefix}"\n'
    )
    (tmp_path / "kcontrol.toml").write_text(text)
    begin, shown, look = _blocks()
    database.run(_statement(begin))
    for step in (1, 2):
        rows = [json.dumps({"customer": "ada", "orders": step, "amount": 1.25 * step}).encode()]
        maker.step(step, {"totals": {0: rows}})
    line = next(each for each in begin.text.splitlines() if each.startswith("kcontrol deliver"))
    words = shlex.split(line.replace(ADDRESS, database.url).replace(" orders ", f" {PIPELINE} "))
    with KcontrolProcess(
        *words[1:], *FORMAT, log=tmp_path / "log", cwd=tmp_path, env={"PGPASSWORD": PASSWORD}
    ) as process:
        until(lambda: database.run("SELECT * FROM totals"), "rows are there", HANG_S, process.text)

        def told() -> bool:
            return missing(shown.text, run_kcontrol("status", PIPELINE, cwd=tmp_path).stdout) is None

        until(told, "kcontrol status shows what the page does", HANG_S, process.text)
        assert process.terminate() == 0
    assert [(name, count, float(amount)) for name, count, amount in database.run("SELECT * FROM totals")] == [
        ("ada", 2, 2.5)
    ]
    ((target, step, _age, state, reason),) = database.run(_statement(look))
    assert (target, step, state, reason) == ("totals", 2, "running", "")
