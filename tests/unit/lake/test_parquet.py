"""The rule at a directory of Parquet files, without Kafka: what is there, what is refused, what a full disk leaves."""

from __future__ import annotations

import json
import multiprocessing
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from kcontrol.adapters.lake.parquet import ParquetSteps
from kcontrol.adapters.lake.rows import BatchRules
from kcontrol.adapters.lake.target import LakeTarget
from kcontrol.core.step.following import Applied, PlacedRecords, RecordPlace, StepVerdict
from kcontrol.errors import DeliveryHaltedError, TargetAwayError
from tests.support.patience import HANG_S

DDL = "id BIGINT"


class _OwnTurn:
    def open(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> bool:
        return True

    def beat(self) -> None: ...


def _target(path: Path, ddl: str | None = DDL, output: str = "out") -> LakeTarget:
    return LakeTarget(ParquetSteps(path, "p", output, ddl), _OwnTurn(), "p", BatchRules("json", batch_rows=2))


@pytest.fixture
def target(tmp_path: Path) -> LakeTarget:
    begun = _target(tmp_path / "rows")
    begun.open()
    assert begun.applied() is None
    begun.begin("log", 0)
    begun.take()
    return begun


def _records(*ids: int) -> PlacedRecords:
    def every() -> Iterator[tuple[bytes | None, bytes | None, RecordPlace]]:
        for offset, each in enumerate(ids):
            yield None, json.dumps({"id": each}).encode(), RecordPlace(0, offset)

    return every()


def _apply(
    target: LakeTarget, step: int, *ids: int, mark: str = "print", follows: int | None = None
) -> StepVerdict:
    done = target.apply(step, mark, 1_000, _records(*ids), step - 1 if follows is None else follows)
    return done.verdict


def _ids(path: Path) -> list[int]:
    return sorted(ds.dataset(path, format="parquet").to_table()["id"].to_pylist())


def test_each_step_is_judged_by_what_is_there(target: LakeTarget, tmp_path: Path) -> None:
    assert _apply(target, 1, 1, 2, 3) is StepVerdict.NEXT
    assert _apply(target, 1, 1, 2, 3) is StepVerdict.DUPLICATE
    assert _apply(target, 1, 1, 2, 3, mark="other") is StepVerdict.DIFFERENT
    assert _apply(target, 3, 5) is StepVerdict.GAP
    assert _apply(target, 5, 5, follows=1) is StepVerdict.NEXT, "those between are void"
    assert _ids(tmp_path / "rows") == [1, 2, 3, 5]
    assert (tmp_path / "rows" / "kcontrol_step=5" / "_manifest.json").exists()


def test_who_comes_too_late_with_a_step_changes_nothing(target: LakeTarget, tmp_path: Path) -> None:
    late = _target(tmp_path / "rows", ddl=None)
    late.open()
    assert late.take() is not None

    def meanwhile() -> Iterator[tuple[bytes | None, bytes | None, RecordPlace]]:
        yield from _records(7)
        assert target.take() is not None
        assert _apply(target, 1, 1) is StepVerdict.NEXT

    with pytest.raises(TargetAwayError, match="another process has taken this delivery over"):
        late.apply(1, "print", 1_000, meanwhile(), 0)
    late.open()
    assert late.apply(1, "print", 1_000, _records(1), 0).verdict is StepVerdict.DUPLICATE
    assert _ids(tmp_path / "rows") == [1]


def test_what_a_dead_one_has_staged_is_gone_when_the_next_one_begins(
    target: LakeTarget, tmp_path: Path
) -> None:
    staged = tmp_path / "rows" / "_kcontrol" / "staged" / "1.dead"
    staged.mkdir()
    (staged / "part-0.parquet").write_bytes(b"half")
    target.take()
    assert [*(tmp_path / "rows" / "_kcontrol").rglob("*.parquet")] == []
    assert _apply(target, 1, 1) is StepVerdict.NEXT


def _steps(path: Path) -> ParquetSteps:
    steps = ParquetSteps(path, "p", "out", DDL)
    steps.open()
    return steps


@pytest.mark.parametrize("wakes", ["before it is begun", "after it was begun", "when it was taken"])
def test_who_hangs_before_it_stages_adds_nothing_to_a_delivery_that_was_begun_anew(
    tmp_path: Path, wakes: str
) -> None:
    zombie = _steps(tmp_path / "rows")
    zombie.begin("log", 0)
    zombie.clear()
    held = zombie.read()
    assert held is not None

    def late() -> None:
        with pytest.raises(TargetAwayError, match="another process has taken this delivery over"):
            zombie.add(Applied("p", held.log_id, 1, "print"), 1_000, iter(()))

    anew = _steps(tmp_path / "rows")
    anew.forget()
    if wakes == "before it is begun":
        late()
    anew.begin("log", 41)
    if wakes == "after it was begun":
        late()
    anew.clear()
    late()
    found = anew.read()
    assert found is not None
    assert found.step == 41


def test_who_hangs_before_it_stages_does_not_bring_back_what_a_person_has_taken_out(tmp_path: Path) -> None:
    zombie = _steps(tmp_path / "rows")
    zombie.begin("log", 0)
    zombie.clear()
    zombie.read()
    other = _steps(tmp_path / "rows")
    other.clear()
    other.add(Applied("p", "log", 1, "print"), 1_000, iter(()))
    shutil.rmtree(tmp_path / "rows" / "kcontrol_step=1")
    with pytest.raises(TargetAwayError):
        zombie.add(Applied("p", "log", 1, "print"), 1_000, iter(()))
    other.add(Applied("p", "log", 1, "print"), 1_000, iter(()))


def test_of_two_that_take_it_at_once_one_adds_the_step(
    target: LakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has moved away what there was before the other made its directory."""
    late = _target(tmp_path / "rows", ddl=None)
    late.open()
    made = Path.mkdir

    def both_at_once(self: Path, *more: Any, **named: Any) -> None:
        monkeypatch.setattr(Path, "mkdir", made)
        assert late.take() is not None
        made(self, *more, **named)

    monkeypatch.setattr(Path, "mkdir", both_at_once)
    assert target.take() is not None

    def meanwhile() -> Iterator[tuple[bytes | None, bytes | None, RecordPlace]]:
        yield from _records(7)
        assert _apply(target, 1, 1) is StepVerdict.NEXT

    with pytest.raises(TargetAwayError, match="step 1 was there already"):
        late.apply(1, "print", 1_000, meanwhile(), 0)
    assert _ids(tmp_path / "rows") == [1]


def test_a_directory_of_another_output_is_refused(target: LakeTarget, tmp_path: Path) -> None:
    other = _target(tmp_path / "rows", output="other")
    other.open()
    with pytest.raises(DeliveryHaltedError, match="is where output 'out' of pipeline 'p' is delivered to"):
        other.applied()


def test_a_delivery_that_was_begun_anew_is_noticed(target: LakeTarget, tmp_path: Path) -> None:
    other = _target(tmp_path / "rows")
    other.open()
    other.forget()
    other.begin("log", 7)
    with pytest.raises(TargetAwayError, match="begun anew"):
        _apply(target, 1, 1)


def _fill(path: Path) -> None:
    target = _target(path)
    target.open()
    target.begin("log", 0)
    target.take()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
    with pytest.raises(TargetAwayError, match="File too large"):
        _apply(target, 1, *(each * 7_919 % 1_000_003 for each in range(10_000)))
    assert _apply(target, 1) is StepVerdict.NEXT, "once there is room, it goes on"


def test_no_room_left_is_waited_out_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit of the process stands for the disk's end: the same call fails in the same place."""
    process = multiprocessing.get_context("spawn").Process(target=_fill, args=(tmp_path / "rows",))
    process.start()
    process.join(HANG_S)
    assert process.exitcode == 0
    assert [*(tmp_path / "rows" / "_kcontrol" / "staged").glob("*/*")] == []
