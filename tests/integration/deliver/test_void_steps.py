"""Deliveries to a database and to a webhook that have been given a step which a reset has made void: they halt, and begin anew
as the page says. Those to tables of files are in test_lake.py."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcontrol.errors import DeliveryHaltedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import (
    TABLE,
    Life,
    Until,
    expected_newest,
    expected_rows,
    live,
    log_of,
    outputs,
)
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.postgres import Database
from tests.support.processes import KcontrolProcess, run_kcontrol, until
from tests.support.webhook_receiver import receiver

VOID = "of which 2 to 2 are void since a reset"


@pytest.fixture
def maker(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    """Of two steps."""
    return log_of((1, 2), settings, topic_factory)


def _go_back(maker: StepsMaker) -> None:
    """Step 2 is void; step 4 is behind that."""
    maker.reset(3, to_step=1)
    maker.step(4, outputs(4))


@pytest.mark.parametrize("keys", [(), ("key",)], ids=["append", "upsert"])
@pytest.mark.parametrize("at_work", [False, True], ids=["started", "at work"])
def test_a_database_is_given_nothing_behind_a_void_step(
    maker: StepsMaker, database: Database, keys: tuple[str, ...], *, at_work: bool
) -> None:
    primary = " PRIMARY KEY" if keys else ""
    database.run(f"CREATE TABLE {TABLE} (step bigint, key int{primary}, value bigint)")
    life = Life(maker.settings, database.url, until=4, keys=keys)

    def rows() -> list[tuple[int, ...]]:
        return database.run(f"SELECT step, key, value FROM {TABLE} ORDER BY 1, 2, 3")

    with ThreadPoolExecutor(1) as pool:
        progress = Until(4 if at_work else 2)
        running = pool.submit(live, life, progress)
        until(lambda: progress.facts.step == 2 or running.done(), "it has applied step 2", HANG_S)
        if not at_work:
            running.result(HANG_S)
        _go_back(maker)
        with pytest.raises(DeliveryHaltedError, match=VOID):
            running.result(HANG_S) if at_work else live(life)
    assert rows() == (expected_newest(2) if keys else expected_rows([1, 2]))
    ((step, state, reason),) = database.run("SELECT step, state, reason FROM kcontrol_steps")
    assert (step, state) == (2, "halted")
    assert VOID in reason

    database.run(f"TRUNCATE {TABLE}")
    live(dataclasses.replace(life, options=dataclasses.replace(life.options, resync=True)))
    assert rows() == (expected_newest(4) if keys else expected_rows([1, 4]))


def test_a_webhook_is_sent_nothing_behind_a_void_step(maker: StepsMaker, tmp_path: Path) -> None:
    (tmp_path / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{maker.settings.bootstrap_servers}"\nprefix = "{maker.settings.prefix}"\n'
    )
    with receiver() as hook:
        where = ("--to", hook.url, "--output", "delays", "--format", "json", "--silence-timeout", "20")
        asked = ("deliver", PIPELINE, *where, "--request-timeout", "5")
        with KcontrolProcess(*asked, "--start", "first", log=tmp_path / "log", cwd=tmp_path) as process:
            hook.until(2)
            _go_back(maker)
            assert process.wait(HANG_S) == DeliveryHaltedError.exit_code, process.text()
            assert VOID in process.text()
        ended = run_kcontrol(*asked, cwd=tmp_path)
        assert ended.returncode == DeliveryHaltedError.exit_code, ended.stderr
        assert VOID in ended.stderr
        assert {each.said["step"] for each in hook.taken} == {1, 2}

        sent = len(hook.taken)
        with KcontrolProcess(
            *asked, "--resync", "--start", "2", log=tmp_path / "log", cwd=tmp_path
        ) as process:
            hook.until(4)
            assert process.terminate() == 0
        assert {each.said["step"] for each in hook.taken[sent:]} == {4}
