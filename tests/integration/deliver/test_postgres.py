"""Committed steps in a table of PostgreSQL: once, in order, whole; and what can't be done is said in one sentence."""

from __future__ import annotations

import dataclasses
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from kcontrol.adapters.postgres.rows import RowRules
from kcontrol.adapters.postgres.session import DatabaseAddress, SessionLimits
from kcontrol.adapters.postgres.target import PostgresOptions, PostgresTarget
from kcontrol.apps.deliver.delivery import DeliveryOptions
from kcontrol.apps.deliver.progress import DeliveryState
from kcontrol.core.step.following import RecordPlace
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, ReplacedError, TargetAwayError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import (
    POINTS,
    TABLE,
    Life,
    Until,
    ended,
    expected_newest,
    expected_rows,
    live,
    log_of,
    start,
    until_stopped,
    wake,
)
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.postgres import Database
from tests.support.processes import until
from tests.support.small_disk import BALLAST, fill, small_disk

STEPS = 8
APPEND = f"CREATE TABLE {TABLE} (step bigint, key int, value bigint)"
UPSERT = f"CREATE TABLE {TABLE} (step bigint, key int PRIMARY KEY, value bigint)"
KINDS = pytest.mark.parametrize("keys", [(), ("key",)], ids=["append", "upsert"])


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    """A log of STEPS steps, which no test changes."""
    return log_of(range(1, STEPS + 1), settings, topic_factory)


@pytest.fixture
def life(log: StepsMaker, database: Database) -> Life:
    return Life(log.settings, database.url, until=STEPS)


def _rows(database: Database) -> list[tuple[int, ...]]:
    return database.run(f"SELECT step, key, value FROM {TABLE} ORDER BY 1, 2, 3")


def _made(life: Life, database: Database, keys: tuple[str, ...]) -> Life:
    """With its table."""
    database.run(UPSERT if keys else APPEND)
    return dataclasses.replace(life, keys=keys)


def _expected(keys: tuple[str, ...]) -> list[tuple[int, int, int]]:
    """Of all steps."""
    return expected_newest(STEPS) if keys else expected_rows(range(1, STEPS + 1))


def _record(database: Database) -> tuple[object, ...]:
    (row,) = database.run(
        "SELECT pipeline, output, target, step, rows, bad_rows, guarantee FROM kcontrol_steps"
    )
    return row


def test_every_step_is_there_once_with_its_number(life: Life, database: Database) -> None:
    database.run(APPEND)
    progress = live(life)
    assert _rows(database) == expected_rows(range(1, STEPS + 1))
    rows = len(expected_rows(range(1, STEPS + 1)))
    assert _record(database) == (PIPELINE, "delays", TABLE, STEPS, rows, 0, "exactly_once")
    assert (progress.facts.steps, progress.facts.rows) == (STEPS, rows)
    live(life)
    assert _rows(database) == expected_rows(range(1, STEPS + 1)), "a second life finds all of it there"


def test_the_newest_row_of_each_key_takes_the_place_of_older_ones(life: Life, database: Database) -> None:
    database.run(UPSERT)
    live(dataclasses.replace(life, keys=("key",)))
    assert _rows(database) == expected_newest(STEPS)


@KINDS
def test_deliverers_may_die_at_each_arrow(life: Life, database: Database, keys: tuple[str, ...]) -> None:
    """One after the other on the same table."""
    life = _made(life, database, keys)
    for point in POINTS:
        died = start(
            dataclasses.replace(life, at=point, nth=1 if point in ("connected", "taken", "committed") else 2)
        )
        assert ended(died) == -signal.SIGKILL, point
    live(life)
    assert _rows(database) == _expected(keys)


@KINDS
def test_two_at_once_stand_in_line(life: Life, database: Database, keys: tuple[str, ...]) -> None:
    life = _made(life, database, keys)
    both = [start(dataclasses.replace(life, name=name)) for name in ("one", "two")]
    assert [ended(each) for each in both] == [0, 0]
    assert _rows(database) == _expected(keys)


@KINDS
@pytest.mark.parametrize("point", ["taken", "begun"])
def test_a_zombie_applies_nothing_any_more(
    life: Life, database: Database, point: str, keys: tuple[str, ...]
) -> None:
    """It stands still, with its session, for longer than another waits: before a step, or within its transaction, which
    the server then ends."""
    life = _made(life, database, keys)
    short = dataclasses.replace(life.limits, statement_s=3, lock_s=1)
    life = dataclasses.replace(life, silence_s=0.5, limits=short)
    # By upserts of all steps again it would bring the rows to what they are; by those of the first two, back.
    zombie = start(dataclasses.replace(life, until=2, at=point, signal=signal.SIGSTOP, name="zombie"))
    until_stopped(zombie)
    live(dataclasses.replace(life, name="heir"))
    assert _rows(database) == _expected(keys)
    ((fence, holder),) = database.run("SELECT fence, holder FROM kcontrol_steps")
    assert fence >= 2
    assert holder.startswith("heir:")
    wake(zombie)
    assert ended(zombie) == 0
    assert _rows(database) == _expected(keys)


def test_the_database_may_go_away_and_come_back(
    life: Life, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.run(APPEND)
    live(dataclasses.replace(life, until=2))
    database.server.stop("fast")
    thread = threading.Thread(target=live, args=(life,))
    thread.start()
    until(lambda: "trying again" in caplog.text, "the delivery says that it waits", HANG_S)
    database.server.start()
    thread.join(HANG_S)
    assert not thread.is_alive()
    assert _rows(database) == expected_rows(range(1, STEPS + 1))
    assert "Steps go on, and the delivery lags" in caplog.text


def test_a_server_that_is_killed_in_the_middle_of_a_step_has_it_once(life: Life, database: Database) -> None:
    database.run(APPEND)
    held = start(dataclasses.replace(life, at="numbered", nth=2, signal=signal.SIGSTOP))
    until_stopped(held)
    database.server.stop("immediate")
    database.server.start()
    wake(held)
    assert ended(held) == 0
    assert _rows(database) == expected_rows(range(1, STEPS + 1))


def test_a_full_disk_is_said_and_waited_out(life: Life, database: Database) -> None:
    """Of a tablespace. Once there is room it goes on by itself, and nothing is lost or there twice."""
    with small_disk(database.server.directory / "small", 4_096) as disk, ThreadPoolExecutor(1) as pool:
        database.run(f"CREATE TABLESPACE small LOCATION '{database.server.own_directory(disk / 'space')}'")
        # A page of 8 kB has a step or two.
        database.run(f"{APPEND} WITH (fillfactor = 10) TABLESPACE small")
        live(dataclasses.replace(life, until=2))
        fill(disk)
        progress = Until(life.until)
        running = pool.submit(live, life, progress)
        try:
            until(lambda: progress.facts.errors > 3 or running.done(), "it has tried four times", HANG_S)
            assert not running.done(), running.exception()
            assert progress.facts.state is DeliveryState.AWAY
            assert "No space left on device" in progress.facts.reason
            assert "\n" not in progress.facts.reason
        finally:
            (disk / BALLAST).unlink()
        running.result(HANG_S)
        assert _rows(database) == expected_rows(range(1, STEPS + 1))
        database.run(f"DROP TABLE {TABLE}")
        database.run("DROP TABLESPACE small")


def test_a_database_that_stays_away_is_given_up(life: Life, database: Database) -> None:
    gone = database.url.replace(f":{database.server.port}/", ":1/")
    options = dataclasses.replace(life.options, give_up_s=0.3)
    with pytest.raises(TargetAwayError, match="did not succeed within 300 ms"):
        live(dataclasses.replace(life, url=gone, options=options))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("step = 99", "holds step 99, but the log of pipeline 'flights' ends with step 8"),
        ("log_id = 'other'", "holds step 3 of pipeline 'flights', log other"),
        ("print = 'other'", "was given step 3 of pipeline 'flights' with other contents"),
        ("target_oid = 1", "is not the one that steps up to 3 were delivered to"),
    ],
)
def test_a_target_that_does_not_go_with_the_log_halts(
    life: Life, database: Database, change: str, sentence: str
) -> None:
    database.run(APPEND)
    live(dataclasses.replace(life, until=3))
    database.run(f"UPDATE kcontrol_steps SET {change}")
    before = _rows(database)
    with pytest.raises(DeliveryHaltedError, match=sentence):
        live(life)
    assert _rows(database) == before


def test_a_target_that_goes_back_under_a_delivery_is_a_gap(life: Life, database: Database) -> None:
    """As a backup that is restored while it runs."""
    database.run(APPEND)
    stopped = start(dataclasses.replace(life, at="committed", nth=5, signal=signal.SIGSTOP))
    until_stopped(stopped)
    database.run("UPDATE kcontrol_steps SET step = 2, print = ''")
    wake(stopped)
    assert ended(stopped) != 0
    ((step, state, reason),) = database.run("SELECT step, state, reason FROM kcontrol_steps")
    assert (step, state) == (2, "halted")
    assert "holds step 2, and the next one to apply is step 6: steps 3 to 5 are missing in it" in reason


@pytest.mark.parametrize("keys", [(), ("key",)])
@pytest.mark.parametrize(
    "made_anew",
    [
        f"DROP TABLE {TABLE}; {{table}}",
        f"ALTER TABLE {TABLE} RENAME TO rows_of_before; {{table}}",
    ],
)
def test_a_table_that_is_made_anew_under_a_delivery_gets_nothing(
    life: Life, database: Database, made_anew: str, keys: tuple[str, ...]
) -> None:
    """Else it would have the later steps alone, and the row of the delivery would say that it has all of them."""
    table = UPSERT if keys else APPEND
    database.run(table)
    target = dataclasses.replace(life, keys=keys).target()
    target.open()
    target.begin("log", 0)
    assert target.take() is not None
    row = [(None, b'{"step": 1, "key": 1, "value": 1}', RecordPlace(0, 0))]
    assert target.apply(1, "print", 0, row, 0).rows == 1
    for statement in made_anew.format(table=table).split("; "):
        database.run(statement)
    with pytest.raises(DeliveryHaltedError, match="is not the one that steps up to 1 were delivered to"):
        target.apply(2, "print", 0, row, 1)
    target.close()
    assert _rows(database) == []
    assert database.run("SELECT step FROM kcontrol_steps") == [(1,)]


def test_all_of_it_again_needs_an_empty_table(life: Life, database: Database) -> None:
    database.run(APPEND)
    live(life)
    again = dataclasses.replace(life, options=dataclasses.replace(life.options, resync=True))
    with pytest.raises(
        DeliveryHaltedError, match=f"not empty, so nothing begins anew: TRUNCATE public.{TABLE} first"
    ):
        live(again)
    database.run(f"DROP TABLE {TABLE}")
    database.run(APPEND)
    live(again)
    assert _rows(database) == expected_rows(range(1, STEPS + 1))


@pytest.mark.parametrize(("begin", "first"), [("next", STEPS + 1), ("5", 5)])
def test_it_begins_where_it_is_asked_to(life: Life, database: Database, begin: str, first: int) -> None:
    database.run(APPEND)
    live(dataclasses.replace(life, options=dataclasses.replace(life.options, start=begin)))
    assert _rows(database) == expected_rows(range(first, STEPS + 1))
    late = DeliveryOptions(start=str(STEPS + 2))
    database.run("DELETE FROM kcontrol_steps")
    with pytest.raises(ConfigurationError, match=f"has committed {STEPS} steps; give {STEPS + 1} at most"):
        live(dataclasses.replace(life, options=late))


@pytest.mark.parametrize(
    ("table", "keys", "sentence"),
    [
        ("CREATE TABLE other (a int)", (), f"there is no table '{TABLE}'"),
        (f"CREATE VIEW {TABLE} AS SELECT 1 AS step", (), "it is a view or the like"),
        (
            APPEND.replace("key int, ", ""),
            (),
            "the table has no column 'key' that is written, for the value 0",
        ),
        (APPEND, ("key",), "no primary key and no unique index is of key alone, which upserts need"),
        (UPSERT, ("name",), "it has no column 'name'; it has step, key, value"),
        (
            APPEND.replace("value bigint", "value smallint, more text NOT NULL"),
            (),
            "column 'more' has no value",
        ),
        (
            APPEND.replace("value bigint", "value boolean"),
            (),
            "column 'value' is boolean and can't hold 1000: it is neither",
        ),
        (APPEND.replace("int,", "int CHECK (key < 3),"), (), "violates check constraint"),
    ],
)
def test_a_table_that_does_not_fit_halts_and_nothing_is_applied(
    life: Life, database: Database, table: str, keys: tuple[str, ...], sentence: str
) -> None:
    database.run(table)
    with pytest.raises(DeliveryHaltedError, match=sentence):
        live(dataclasses.replace(life, keys=keys))
    if "TABLE rows" in table:
        assert database.run(f"SELECT count(*) FROM {TABLE}") == [(0,)]


def test_a_refused_login_is_said_at_once_without_the_password(
    life: Life, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    with pytest.raises(DeliveryHaltedError, match="password authentication failed") as refused:
        live(life)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="--to has a password in it") as told:
        live(dataclasses.replace(life, url=database.url.replace("postgres@", "postgres:s3cret@")))
    assert "s3cret" not in str(told.value)


def test_one_of_before_a_resync_applies_nothing_any_more(database: Database) -> None:
    """The row was made anew, and counts its fences from before again."""
    database.run(APPEND)
    options = PostgresOptions(DatabaseAddress(database.url), TABLE, RowRules("json"))
    old, new = (PostgresTarget(options, PIPELINE, "delays", holder) for holder in ("old", "new"))
    old.open()
    old.begin("log-1", 0)
    assert old.take() is not None
    new.open()
    new.forget()
    new.begin("log-2", 0)
    assert new.take() is not None
    with pytest.raises(ReplacedError):
        old.beat(1)
    with pytest.raises(ReplacedError):
        old.apply(1, "print", 0, (), 0)
    old.halted("it is a gap")
    new.beat(1)
    assert database.run("SELECT state, step, holder FROM kcontrol_steps") == [("running", 0, "new")]
    old.close()
    new.close()


def test_one_that_hangs_while_it_sends_rows_is_ended_by_whoever_takes_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server waits for its rows, and looks at no timeout meanwhile."""
    database.run(APPEND)
    limits = SessionLimits(statement_s=1, lock_s=1)
    options = PostgresOptions(
        DatabaseAddress(database.url), TABLE, RowRules("json"), silence_s=0.5, limits=limits
    )
    old, new = (PostgresTarget(options, PIPELINE, "delays", holder) for holder in ("old", "new"))
    hangs, wakes = threading.Event(), threading.Event()
    said: list[Exception] = []

    def write_row(*_: object) -> None:
        hangs.set()
        wakes.wait()

    def deliver() -> None:
        try:
            old.apply(1, "print", 0, [(None, b'{"step": 1}', RecordPlace(0, 0))], 0)
        except TargetAwayError as error:
            said.append(error)

    def taken() -> bool:
        try:
            new.open()
            return new.take() is not None
        except TargetAwayError:
            return False

    old.open()
    old.begin("log-1", 0)
    assert old.take() is not None
    monkeypatch.setattr(psycopg.Copy, "write_row", write_row)
    hanging = threading.Thread(target=deliver)
    hanging.start()
    try:
        hangs.wait()
        until(taken, "the heir has it")
    finally:
        wakes.set()
        hanging.join()
    assert (len(said), _rows(database)) == (1, [])
    old.close()
    new.close()
