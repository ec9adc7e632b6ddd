"""Questions in SQL about a pipeline's state and outputs: as of each kept step they are what its input says, only
statements that read are answered, and each limit is kept."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.tables.states import StateTable
from kcontrol.apps import pipeline_tables
from kcontrol.apps.pipeline_tables import PipelineTables
from kcontrol.apps.table_parts import StepFiles
from kcontrol.errors import CheckpointError, ConfigurationError, NotFoundError
from kcontrol.requests.table_questions import (
    AnswerTooLateError,
    QueryServerError,
    StatementRefusedError,
    TableAnswer,
    TableLimits,
    TableQuestion,
)
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.spark.asked import AskedPipeline, make, pairs, running, seen, told_after, totals
from tests.integration.spark.stepper import read_committed
from tests.support.patience import HANG_S
from tests.support.processes import until

STEPS, EVERY = 4, 2
ENDLESS = "SELECT count(*) FROM range(1000000000) a CROSS JOIN range(1000000000) b WHERE a.id + b.id = -1"

WITHOUT_JOB = (
    "SELECT aggregate(sequence(1, 25000), 0L, (a, x) -> a + aggregate(sequence(1, 5000), 0L, (b, y) -> b + y + x))"
    " FROM VALUES (1) t(x)"
)
"""Rows that are told in the statement are made of it while it is planned, in the thread that asks; some 5 s."""


def dice() -> random.Random:
    seed = int(os.environ.get("KCONTROL_SEED", random.SystemRandom().randrange(1 << 32)))
    sys.stdout.write(f"KCONTROL_SEED={seed}\n")
    return random.Random(seed)


@pytest.fixture(scope="module")
def asked(
    spark: SparkSession,
    settings: ClusterSettings,
    topic_factory: TopicFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> AskedPipeline:
    directory = tmp_path_factory.mktemp("asked")
    return make(spark, settings, topic_factory, directory, (totals, seen, pairs), (STEPS, EVERY), dice())


def _made_in(directory: Path, spark: SparkSession, settings: ClusterSettings) -> PipelineTables:
    # The first question loads much of Spark, on a machine that may be busy.
    patient = TableLimits(timeout_s=200)
    return PipelineTables(settings, spark, directory, directory / "own", patient)


@pytest.fixture
def tables(spark: SparkSession, settings: ClusterSettings, tmp_path: Path) -> Iterator[PipelineTables]:
    made = _made_in(tmp_path, spark, settings)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(
    spark: SparkSession, settings: ClusterSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PipelineTables]:
    """For tests that only ask: what was read of a step is there for the next one."""
    made = _made_in(tmp_path_factory.mktemp("shared"), spark, settings)
    yield made
    made.close()


def ask(tables: PipelineTables, asked: AskedPipeline, sql: str, **more: Any) -> TableAnswer:
    return asyncio.run(tables.answer(TableQuestion(asked.name, sql, **more)))


def test_whatever_the_dice_say_all_outputs_have_records_from_the_first_step_on() -> None:
    """Or a question about them would be a question about nothing."""
    for seed in range(200):
        first = told_after(STEPS, random.Random(seed))[1]
        assert {each["name"] for each in first.events} & {each["name"] for each in first.others}, seed


def test_state_and_outputs_as_of_every_kept_step(
    shared: PipelineTables, asked: AskedPipeline, settings: ClusterSettings
) -> None:
    assert asked.kept == [2, 4]
    topics = {output.name: output.topic for output in asked.spec.outputs}
    for step in asked.kept:
        told = asked.told[step]

        def rows(sql: str, step: int = step) -> Counter[Any]:
            answer = ask(shared, asked, sql, step=step)
            assert (answer.step, answer.more, list(answer.notes)) == (step, False, [])
            assert answer.step_ms == asked.boundaries[step].now_ms
            return Counter(tuple(row) for row in answer.rows)

        expected = Counter({(name, *both): 1 for name, both in told.totals().items()})
        assert rows("SELECT name, count, sum FROM totals__aggregate") == expected
        assert rows("SELECT name FROM seen__distinct") == Counter((name,) for name in told.totals())
        assert rows("SELECT name, a FROM pairs__left") == Counter(
            (each["name"], each["n"]) for each in told.events
        )
        assert rows("SELECT name, b FROM pairs__right") == Counter(
            (each["name"], each["n"]) for each in told.others
        )
        assert (
            rows("SELECT json:name::string, json:c::bigint, json:s::bigint FROM totals__latest") == expected
        )
        for output in ("totals", "pairs"):
            committed = [each for each in read_committed(settings, topics[output]) if each.step <= step]
            assert committed
            assert rows(
                f"SELECT step, partition, offset, key, value, size(headers) FROM {output}"
            ) == Counter(
                (
                    each.step,
                    each.partition,
                    each.offset,
                    each.key and each.key.decode(),
                    each.value.decode(),
                    0,
                )
                for each in committed
            )
    sql = "SELECT count(*), max(t.node), count(DISTINCT t.shard) FROM t JOIN seen__distinct USING (name)"
    both = ask(shared, asked, f"WITH t AS (SELECT * FROM totals__aggregate) {sql}")
    assert both.step == asked.kept[-1]
    [[count, node, shards]] = both.rows
    assert (count, node) == (len(asked.told[both.step].totals()), 0)
    assert 1 <= shards <= 2


def test_each_node_has_its_own_keys_and_a_table_has_those_of_all(
    tables: PipelineTables, asked: AskedPipeline, spark: SparkSession
) -> None:
    """A copy stands in for a second node's part: what is read of it must come with its number."""
    one, table = _table_of_totals(tables, asked)
    [(_, place)] = table.places.items()
    other = one.directory / "other"
    shutil.copytree(place, other)
    one._states = [replace(table, places={0: place, 1: other}, nodes={})]
    found = ask(
        tables,
        asked,
        "SELECT node, count(*), sum(count) FROM totals__aggregate GROUP BY node ORDER BY node",
        step=4,
    )
    names, records = len(asked.told[4].totals()), len(asked.told[4].events)
    assert found.rows == [[0, names, records], [1, names, records]]


def test_each_shard_is_of_the_node_that_owned_it(
    tables: PipelineTables, asked: AskedPipeline, spark: SparkSession
) -> None:
    one, table = _table_of_totals(tables, asked)
    assert set(table.nodes.values()) == {0}
    one._states = [replace(table, nodes={shard: shard + 5 for shard in table.nodes})]
    sql = "SELECT node - shard, count(*), sum(count) FROM totals__aggregate GROUP BY node - shard"
    found = ask(tables, asked, sql, step=4)
    assert found.rows == [[5, len(asked.told[4].totals()), len(asked.told[4].events)]]


def _table_of_totals(tables: PipelineTables, asked: AskedPipeline) -> tuple[StepFiles, StateTable]:
    ask(tables, asked, "SELECT * FROM totals__aggregate", step=4)
    [one] = tables._kept.values()
    [table] = [each for each in one.states(lambda: None) if each.name == "totals__aggregate"]
    return one, table


def test_the_tables_are_listed_with_their_columns(shared: PipelineTables, asked: AskedPipeline) -> None:
    known = asyncio.run(shared.tables(asked.name, None))
    assert (known.step, known.steps) == (4, "2 and 4")
    columns = {each.name: {column.name: column.type for column in each.columns} for each in known.tables}
    assert columns["totals__aggregate"] == {
        "name": "string",
        "count": "bigint",
        "sum": "bigint",
        "shard": "int",
        "node": "int",
    }
    assert set(columns["seen__distinct"]) == {"name", "shard", "node"}
    assert {"key", "value", "json", "step", "offset", "headers", "partition", "timestamp"} == set(
        columns["totals"]
    )
    assert set(columns["totals__latest"]) == set(columns["totals"])
    listed = ask(shared, asked, "show tables")
    assert {row[0] for row in listed.rows} == set(columns)
    described = ask(shared, asked, "describe totals__aggregate")
    assert [row[0] for row in described.rows][:3] == ["name", "count", "sum"]
    assert "totals" in json.dumps(ask(shared, asked, "EXPLAIN SELECT * FROM totals__aggregate").rows)


REFUSED = {
    "INSERT INTO totals VALUES (1)": "InsertIntoStatement",
    "CREATE TABLE x (a INT)": "CreateTable",
    "CREATE TEMPORARY VIEW x AS SELECT 1": "CreateView",
    "DROP TABLE totals": "Drop",
    "SET spark.sql.runSQLOnFiles=true": "SetCommand",
    "CACHE TABLE totals": "CacheTable",
    "ADD JAR 'x.jar'": "AddJar",
    "MERGE INTO totals USING seen ON true WHEN MATCHED THEN DELETE": "MergeInto",
    "EXECUTE IMMEDIATE 'SET a=b'": "ExecuteImmediate",
    "BEGIN SELECT 1; END": "CompoundBody",
    "EXPLAIN INSERT INTO totals VALUES (1)": "InsertIntoStatement",
    "SELECT TRANSFORM (name) USING 'cat' AS (x) FROM seen__distinct": "ScriptTransformation",
    "SELECT * FROM STREAM totals": "NamedStreamingRelation",
    "SELECT * FROM totals VERSION AS OF 1": "RelationTimeTravel",
    "SELECT 1; SELECT 2": "can't read the statement",
    "SELEC 1": "can't read the statement",
    "SELECT * FROM csv.`/etc/passwd`": "no table of the pipeline",
    "SELECT * FROM parquet.`/etc/passwd`": "no table of the pipeline",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')": "no table of the pipeline",
    "SELECT (SELECT count(*) FROM file.`/etc/passwd`)": "no table of the pipeline",
    "WITH t AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM t": "no table of the pipeline",
    "SELECT * FROM spark_catalog.default.totals": "no table of the pipeline",
    "DESCRIBE csv.`/etc/passwd`": "no table of the pipeline",
    "SELECT reflect('java.lang.System', 'getenv', 'PATH')": "'reflect' could reach",
    "SELECT java_method('java.lang.System', 'exit', 1)": "'java_method' could reach",
    "SELECT try_reflect('java.lang.System', 'exit', 1)": "'try_reflect' could reach",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'PATH')": "'reflect' could reach",
    "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv', 'PATH')": "could reach",
    "SELECT name FROM totals__aggregate WHERE EXISTS (SELECT reflect('a', 'b'))": "'reflect' could reach",
    "SELECT sum(count) OVER w FROM totals__aggregate WINDOW w AS (ORDER BY reflect('a', 'b'))": "'reflect' could reach",
    "SELECT count(*) OVER w FROM VALUES (1) t(x) WINDOW w AS (ORDER BY (SELECT reflect('a', 'b')))": "'reflect'",
    "SELECT count(*) OVER w FROM VALUES (1) t(x) WINDOW w AS (PARTITION BY x IN (SELECT reflect('a', 'b')))": "'reflect'",
    "SELECT 1 WHERE EXISTS (SELECT count(*) OVER w WINDOW w AS (ORDER BY (SELECT reflect('a', 'b'))))": "'reflect'",
    "SELECT * FROM VALUES (reflect('a', 'b')) AS t(x)": "'reflect' could reach",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))": "'from_xml' could reach",
    "SELECT from_protobuf(X'00', 'A', '/etc/passwd')": "'from_protobuf' could reach",
    "SELECT * FROM python_worker_logs()": "can't stand in the place of a table",
    "SELECT nothing FROM totals__aggregate": "Spark refuses the statement",
    "SELECT * FROM totals WHERE step = :step": "Spark refuses the statement",
    "SELECT raise_error('so it is')": "so it is",
    "SELECT 1" + " " * 50_000: "50,000 are allowed",
}


@pytest.mark.parametrize(("sql", "said"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_does_not_read_the_tables_is_refused(
    shared: PipelineTables, asked: AskedPipeline, sql: str, said: str
) -> None:
    with pytest.raises(StatementRefusedError) as refused:
        ask(shared, asked, sql)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "sql",
    [
        "VALUES (1, 2)",
        "TABLE seen__distinct",
        "SELECT name, sum(count) OVER w FROM totals__aggregate WINDOW w AS (PARTITION BY name)",
        "SELECT name, count(*) OVER w FROM seen__distinct WINDOW w AS (ORDER BY (SELECT max(name) FROM totals__aggregate))",
        "FROM totals__aggregate |> WHERE count > 0 |> SELECT name",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        "SELECT e FROM seen__distinct LATERAL VIEW explode(array(name)) AS e",
        "SELECT * FROM totals__aggregate PIVOT (sum(count) FOR name IN ('a', 'b'))",
        "SELECT * FROM (SELECT name FROM seen__distinct EXCEPT SELECT 'a') UNION SELECT name FROM seen__distinct",
        "SELECT s.name FROM seen__distinct s, LATERAL (SELECT s.name AS again) ORDER BY 1 LIMIT 2 OFFSET 1",
        "SELECT TOTALS__AGGREGATE.NAME FROM Totals__Aggregate GROUP BY ALL HAVING count(*) > 0",
        "SELECT /*+ BROADCAST(a) */ a.name, a.name FROM totals__aggregate a JOIN seen b ON a.name = b.json:name::string",
        "SELECT offset, partition, step, timestamp FROM totals TABLESAMPLE (50 PERCENT)",
        "DESCRIBE QUERY SELECT 1 AS a",
        "SELECT transform(array(1, 2), x -> x + 1), map(1, 'a'), 1.10BD, X'FF', date'2020-01-01', null, double('NaN')",
    ],
)
def test_what_reads_is_answered(shared: PipelineTables, asked: AskedPipeline, sql: str) -> None:
    answer = ask(shared, asked, sql)
    assert answer.columns
    assert all(len(row) == len(answer.columns) for row in answer.rows)
    json.dumps(answer.rows, allow_nan=False)


def test_values_are_what_json_has(shared: PipelineTables, asked: AskedPipeline) -> None:
    sql = (
        "SELECT timestamp'2020-01-02 03:04:05.123456', 1.10BD, X'FF', X'61', null, double('NaN'), named_struct('a', 1),"
        " parse_json('{\"b\": [1]}'), timestamp_ntz'2020-01-02 03:04:05', 1 AS x, 2 AS x"
    )
    [row] = ask(shared, asked, sql).rows
    assert row == [
        *("2020-01-02T03:04:05.123456Z", "1.10", "base64:/w==", "a", None, "NaN", {"a": 1}, {"b": [1]}),
        *("2020-01-02T03:04:05.000000", 1, 2),
    ]


def test_another_step_or_table_is_refused_with_those_that_there_are(
    shared: PipelineTables, asked: AskedPipeline
) -> None:
    with pytest.raises(
        NotFoundError, match="step 3: its state is kept as of step 2 and 4; `kcontrol checkpoint"
    ):
        ask(shared, asked, "SELECT 1", step=3)
    with pytest.raises(
        NotFoundError,
        match=r"has no table 'nowhere' as of step 4; there are totals, totals__latest, .*seen__distinct",
    ):
        ask(shared, asked, "SELECT * FROM nowhere")
    with pytest.raises(NotFoundError, match="no-such"):
        asyncio.run(shared.answer(TableQuestion("no-such", "SELECT 1")))


def test_limits_are_kept(
    spark: SparkSession, settings: ClusterSettings, tmp_path: Path, asked: AskedPipeline
) -> None:
    limits = TableLimits(rows=3, answer_bytes=200, read_bytes=100)
    few = PipelineTables(settings, spark, tmp_path, tmp_path / "own", limits)
    answer = ask(few, asked, "SELECT id FROM range(10)")
    assert (answer.rows, answer.more) == ([[0], [1], [2]], True)
    assert not ask(few, asked, "SELECT id FROM range(3)").more
    assert ask(few, asked, "SELECT id FROM range(3)", rows=2).more
    wide = ask(few, asked, "SELECT repeat('x', 150) FROM range(2)")
    assert (len(wide.rows), wide.more) == (1, True)
    with pytest.raises(StatementRefusedError, match="first row alone has more than the 200 bytes"):
        ask(few, asked, "SELECT repeat('x', 300)")
    with pytest.raises(ConfigurationError, match=r"output 'totals': .*more than 100 bytes.*--max-read"):
        ask(few, asked, "SELECT * FROM totals")
    few.close()


def test_a_question_that_takes_too_long_is_cancelled_and_the_next_one_is_answered(
    tables: PipelineTables, asked: AskedPipeline, spark: SparkSession
) -> None:
    with pytest.raises(AnswerTooLateError, match="not there within 2 s, and the question was cancelled"):
        ask(tables, asked, ENDLESS, timeout_s=2)
    # Spark hears of the end of its own jobs behind a queue.
    until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), "no job", HANG_S)
    assert ask(tables, asked, "SELECT 1").rows == [[1]]


def test_what_spark_computes_outside_of_jobs_is_not_waited_for(
    spark: SparkSession,
    settings: ClusterSettings,
    tmp_path: Path,
    asked: AskedPipeline,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its thread can't be had back, so who serves has to end Spark."""
    monkeypatch.setattr(pipeline_tables, "_GRACE_S", 0.2)
    few = PipelineTables(settings, spark, tmp_path, tmp_path / "own", TableLimits())
    for _ in range(3):  # The time may be over before Spark has begun: that leaves nothing behind.
        with pytest.raises(AnswerTooLateError):
            ask(few, asked, WITHOUT_JOB, timeout_s=1)
        if few.stuck:
            break
    assert "Spark has gone on with it" in few.stuck
    few.close()


def test_no_more_questions_wait_than_may(
    spark: SparkSession, settings: ClusterSettings, tmp_path: Path, asked: AskedPipeline
) -> None:
    few = PipelineTables(settings, spark, tmp_path, tmp_path / "own", TableLimits(waiting=1, timeout_s=2))

    async def three() -> list[Any]:
        questions = [few.answer(TableQuestion(asked.name, ENDLESS)) for _ in range(3)]
        return await asyncio.gather(*questions, return_exceptions=True)

    found = asyncio.run(three())
    assert [type(each) for each in found] == [AnswerTooLateError, AnswerTooLateError, QueryServerError]
    few.close()


def test_state_that_is_not_on_this_host_is_refused_with_the_node(
    tables: PipelineTables, asked: AskedPipeline
) -> None:
    """After the files of a step are gone from the location; what needs no state is answered all the same."""
    [manifest] = Path(asked.location.removeprefix("file://")).rglob("step-2.*.json")
    away = manifest.rename(manifest.with_suffix(".away"))
    try:
        with pytest.raises(
            CheckpointError, match="the part of node 0 of the checkpoint of step 2 can't be read here"
        ):
            ask(tables, asked, "SELECT * FROM seen__distinct", step=2)
        assert ask(tables, asked, "SELECT count(*) FROM totals", step=2).rows[0][0] > 0
    finally:
        away.rename(manifest)


def test_a_dropped_step_leaves_no_files(
    spark: SparkSession, settings: ClusterSettings, tmp_path: Path, asked: AskedPipeline
) -> None:
    one = PipelineTables(settings, spark, tmp_path, tmp_path / "own", TableLimits(kept=1))
    for step in asked.kept:
        ask(one, asked, "SELECT * FROM seen__distinct", step=step)
    assert len(list((tmp_path / "steps").iterdir())) == 1
    one.close()


@pytest.mark.heavy
def test_variables_and_timers_of_transform_with_state(
    spark: SparkSession,
    settings: ClusterSettings,
    topic_factory: TopicFactory,
    tmp_path: Path,
    tables: PipelineTables,
) -> None:
    asked = make(spark, settings, topic_factory, tmp_path / "made", (running,), (4, 1), dice())
    assert asked.kept == [1, 2, 3, 4]
    for step in asked.kept:
        counted = {name: count for name, (count, _) in asked.told[step].totals().items()}
        found = ask(tables, asked, "SELECT name, n FROM running__total", step=step)
        assert dict(found.rows) == counted
        timers = ask(tables, asked, "SELECT name, expiration_timestamp_ms FROM running__timers", step=step)
        assert {name for name, _ in timers.rows} == set(counted)
        assert all(at > asked.boundaries[1].now_ms for _, at in timers.rows)
