"""Going back to a step on disk: what Spark finds, which steps can be opened, and what a zombie can damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.errors import ConfigurationError
from tests.support.processes import until

QUERIES = ("a", "b")


def workdir(root: Path, incarnation: int, retained: int = 100, assignment: int = 0) -> WorkDir:
    made = WorkDir(root, "p", 0, incarnation, QUERIES, retained, assignment)
    made.prepare()
    return made


def record(directory: WorkDir, query: str, planned: int, committed: int) -> None:
    """As Spark's logs look after `committed` steps, with a batch planned or not."""
    for log, steps in (("offsets", planned), ("commits", committed)):
        folder = directory.query_path(query) / log
        folder.mkdir(parents=True, exist_ok=True)
        for step in range(1, steps + 1):
            source = json.dumps({"step": step})
            (folder / str(step - 1)).write_text(
                f"v1\n{{}}\n{source}\n{source}" if log == "offsets" else "v1\n{}"
            )
            (folder / f".{step - 1}.crc").write_text("crc")


def names(directory: WorkDir, query: str, log: str) -> set[str]:
    return {path.name for path in (directory.query_path(query) / log).iterdir()}


def test_only_steps_that_every_query_has_recorded_can_be_opened(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1)
    assert it.openable() == ()
    record(it, "a", planned=4, committed=4)
    record(it, "b", planned=4, committed=3)
    assert it.openable() == (3, 2, 1)


def test_a_rollback_deletes_what_was_planned_or_recorded_later(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1)
    for query in QUERIES:
        record(it, query, planned=5, committed=4)
    (it.query_path("a") / "offsets" / ".5.1234.tmp").write_text("half")
    it.roll_back(3)
    assert names(it, "a", "offsets") == {"0", "1", "2", ".0.crc", ".1.crc", ".2.crc"}
    assert names(it, "b", "commits") == {"0", "1", "2", ".0.crc", ".1.crc", ".2.crc"}
    assert it.openable() == (3, 2, 1)


def test_state_that_spark_may_have_deleted_is_not_offered_even_after_a_rollback(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1, retained=3)
    for query in QUERIES:
        record(it, query, planned=10, committed=10)
    assert it.openable() == (10, 9)
    it.roll_back(9)
    assert it.openable() == (9,)
    for query in QUERIES:
        record(it, query, planned=11, committed=11)
    assert it.openable() == (11, 10)


def test_planned_steps_are_what_spark_wrote_down(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1)
    record(it, "a", planned=2, committed=1)
    assert it.planned_steps("a", 1) == [2, 2]


def test_a_new_incarnation_starts_from_the_newest_older_one_and_nobody_writes_into_anothers(
    tmp_path: Path,
) -> None:
    first = workdir(tmp_path, 5)
    for query in QUERIES:
        record(first, query, planned=2, committed=2)
    state = first.query_path("a") / "state" / "0" / "1.changelog"
    state.parent.mkdir(parents=True)
    state.write_text("state")
    second = workdir(tmp_path, 9)
    assert second.openable() == (2, 1)
    linked = second.query_path("a") / "state" / "0" / "1.changelog"
    assert linked.read_text() == "state"
    assert not first.path.exists()
    record(first, "a", planned=3, committed=3)
    second.roll_back(1)
    assert second.openable() == (1,)
    zombie_again = workdir(tmp_path, 5)
    assert second.path.exists()
    assert zombie_again.path != second.path


def test_an_incarnation_that_died_while_it_was_made_is_not_taken_for_one(tmp_path: Path) -> None:
    first = workdir(tmp_path, 1)
    record(first, "a", planned=1, committed=1)
    record(first, "b", planned=1, committed=1)
    half = tmp_path / "p" / "node-0" / ".inc-2.777"
    half.mkdir()
    assert workdir(tmp_path, 3).openable() == (1,)
    assert not half.exists()


def test_paths_inside_operator_metadata_follow_the_move(tmp_path: Path) -> None:
    first = workdir(tmp_path, 1)
    metadata = first.query_path("a") / "state" / "0" / "_metadata" / "v2" / "0"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(
        f'v2\n{{"stateSchemaFilePath":"file:{first.query_path("a")}/state/0/_stateSchema/default/0_x"}}'
    )
    (metadata.parent / ".0.crc").write_text("crc")
    second = workdir(tmp_path, 2)
    moved = second.query_path("a") / "state" / "0" / "_metadata" / "v2" / "0"
    assert f"file:{second.query_path('a')}/state" in moved.read_text()
    assert not (moved.parent / ".0.crc").exists()


def test_create_forgets_everything(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1)
    record(it, "a", planned=3, committed=3)
    record(it, "b", planned=3, committed=3)
    it.roll_back(2)
    it.create()
    assert it.openable() == ()
    assert [list(it.query_path(query).iterdir()) for query in QUERIES] == [[], []]


def test_a_late_upload_into_a_forgotten_history_is_seen_by_nobody(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1)
    it.create()
    record(it, "a", planned=1, committed=1)
    forgotten = it.query_path("a")
    it.create()
    late = forgotten / "state" / "0" / "5_x.zip"
    late.parent.mkdir(parents=True)
    late.write_text("snapshot")
    assert list(it.query_path("a").iterdir()) == []
    for query in QUERIES:
        record(it, query, planned=2, committed=2)
    again = workdir(tmp_path, 2)
    assert again.openable() == (2, 1)
    assert not list(again.path.rglob("5_x.zip"))


def test_a_place_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("a file where the directory should be")
    with pytest.raises(ConfigurationError, match="choose another"):
        workdir(tmp_path, 1)


def test_a_beginning_that_was_cut_off_where_it_was_signed_is_begun_again(tmp_path: Path) -> None:
    """Killed between the making of the file that names the assignment and its one line: it is there, and empty."""
    cut_off = workdir(tmp_path, 1)
    cut_off.create()
    [signed] = cut_off.path.glob("history-*/assignment.json")
    signed.write_text("")
    again = workdir(tmp_path, 2)
    assert again.openable() == ()
    again.create()
    for query in QUERIES:
        record(again, query, planned=1, committed=1)
    assert again.openable() == (1,)


def test_after_a_reset_a_batch_is_of_a_step_further_ahead(tmp_path: Path) -> None:
    """Steps 4 and 5 are void, 6 is the reset: what comes after batch 2, which is step 3, is step 7."""
    it = workdir(tmp_path, 1, retained=4)
    for query in QUERIES:
        record(it, query, planned=5, committed=5)
    it.roll_back(3)
    for query in QUERIES:
        for log, text in (("offsets", 'v1\n{}\n{"step": 7}'), ("commits", "v1\n{}")):
            (it.query_path(query) / log / "3").write_text(text)
    assert it.openable() == (7, 3)
    assert workdir(tmp_path, 2, retained=4).openable() == (7, 3)
    again = workdir(tmp_path, 3, retained=4)
    again.roll_back(3)
    assert (again.openable(), names(again, "a", "offsets") & {"2", "3"}) == ((3,), {"2"})


def test_a_table_of_state_is_at_hand_under_each_name_that_it_was_given(tmp_path: Path) -> None:
    it = workdir(tmp_path, 1)
    it.create()
    tables = it.query_path("a") / "state" / "0" / "0" / "SSTs"
    tables.mkdir(parents=True)
    for name in ("000012-old.sst", "000013-old.sst", "000012-old.log"):
        (tables / name).touch()

    def found(name: str) -> list[str]:
        return [path.name for path in it.at_hand()(f"a/state/0/0/SSTs/{name}") if path.exists()]

    assert found("000012-new.sst") == ["000012-old.sst"]
    assert found("000013-old.sst") == ["000013-old.sst"]
    assert found("000012-new.log") == []


def test_what_was_begun_under_another_assignment_stays_where_it_is_until_something_is_begun(
    tmp_path: Path,
) -> None:
    """It can't be opened, so linking all of it is in vain; but files of it that are in a checkpoint need not be fetched."""
    before = workdir(tmp_path, 1)
    before.create()
    for query in QUERIES:
        record(before, query, planned=1, committed=1)
    for incarnation in (2, 3):
        # The first ends before it has begun anything.
        it = workdir(tmp_path, incarnation, assignment=1)
        assert it.openable() == ()
        assert list(it.path.iterdir()) == []
        found = [path for path in it.at_hand()("a/commits/0") if path.exists()]
        assert found == [before.query_path("a") / "commits" / "0"]
    assert sorted(path.name for path in it.path.parent.iterdir()) == ["inc-1", "inc-3"]
    it.create()
    until(
        lambda: [path.name for path in it.path.parent.iterdir()] == ["inc-3"], "what was there before is gone"
    )
    assert workdir(tmp_path, 4, assignment=1).path.is_dir()
