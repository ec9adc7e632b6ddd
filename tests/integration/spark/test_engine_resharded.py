"""A node's engine once its state was cut into another number of shards, for plans that are kept as for those that Spark makes
anew: the steps that follow give what they would have given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcontrol.apps import resharding
from kcontrol.apps.resharding import CutDeadline, Recut, cut_parts, refuse_uncut
from kcontrol.core.model import Assignment, Checkpoint, SavedPart
from kcontrol.core.step.assignment import dealt, resharded
from kcontrol.core.step.layout_change import assigned
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import CheckpointCancelledError, CheckpointError, ConfigurationError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_once_with_state import ALL, KEYED, counts, make_steps, rows_of
from tests.integration.spark.test_shards import heavy_but

TWO = TaskLayout(max_tasks=2, records_per_task=3, shuffle_partitions=2)
QUICK = ("a grouped count",)


async def saved(stepper: Stepper, location: str) -> Checkpoint:
    step = len(stepper.log)
    await stepper.engine.pin(step)
    files = await stepper.engine.save(step, stepper.incarnation, location)
    part = SavedPart(0, stepper.incarnation, files.manifest, files.files, files.size_bytes)
    made_by = None
    if stepper.spec.assignment:
        made_by = Assignment(
            stepper.pipeline.name, stepper.spec.assignment, 0, 1, stepper.spec.owners, (), (), 0, 0, "", 0
        )
    return Checkpoint(stepper.pipeline.name, step, 1, 0, location, (part,), 0, 0, "", 0, 0, -1, made_by)


def recut_of(stepper: Stepper, checkpoint: Checkpoint, shards: int) -> Recut:
    before = stepper.spec.layout.shuffle_partitions
    owner = resharded(dealt(before, 1), shards)
    return Recut(stepper.pipeline.name, checkpoint, before, owner, {0: stepper.incarnation})


async def reshard(stepper: Stepper, shards: int, directory: Path) -> None:
    """What `kcontrol layout --shards` and starting the pipeline anew does."""
    checkpoint = await saved(stepper, (directory / "durable").as_uri())
    work = recut_of(stepper, checkpoint, shards)
    scratch = directory / f"scratch-{shards}"
    scratch.mkdir()
    refuse_uncut(work.pipeline, checkpoint, work.shards, directory)
    made = cut_parts(stepper.spark, work, directory, scratch, CutDeadline(work, 600))
    number = stepper.spec.assignment + 1
    assignment = Assignment(
        *(work.pipeline, number, checkpoint.step, 1, work.owner, (), (), 0, 0, "", 0, made.parts)
    )
    await stepper.redefine(layout=replace(TWO, shuffle_partitions=shards))
    stepper.spec = assigned(stepper.spec, assignment)
    await stepper.new_incarnation()
    anew = replace(checkpoint, parts=made.parts, assignment=assignment)
    assert stepper.engine.openable() == ()
    assert await stepper.engine.restorable([anew]) == (anew.step,)
    with pytest.raises(
        CheckpointError, match=rf"has {work.shards} shards (of .*)?and the pipeline has {shards}"
    ):
        await stepper.engine.open(anew.step, create=False, checkpoint=checkpoint)
    await stepper.engine.open(anew.step, create=False, checkpoint=anew)


@pytest.mark.parametrize("once", [True, False], ids=["planned once", "planned each step"])
@pytest.mark.parametrize("name", heavy_but(*QUICK, of=ALL))
def test_one_node_goes_from_two_shards_to_eight_and_to_four(
    run_scenario: RunScenario, tmp_path: Path, name: tuple[Any, dict[str, Any]], once: bool
) -> None:
    query, more = name
    inputs = ("numbers", *more)
    found: list[Any] = []

    async def cut(stepper: Stepper) -> None:
        assert (stepper.bound.planning == "once") == once
        await stepper.engine.open(0, create=True)
        await make_steps(stepper, 2, inputs)
        for shards in (8, 4):
            await reshard(stepper, shards, tmp_path)
            await make_steps(stepper, 2, inputs)
            last = len(stepper.log)
            assert stepper.log[last].layout.shuffle_partitions == shards
            await stepper.new_incarnation()
            await stepper.engine.open(last - 1, create=False)
            await stepper.replay(last)
        found.append(rows_of(stepper))

    async def uncut(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await make_steps(stepper, 6, inputs)
        found.append(rows_of(stepper))

    where = ({"numbers": (2, {}), **more}, {"out": (3, KEYED)}, TWO)
    run_scenario([query], cut, *where, plan_once=once)
    run_scenario([query], uncut, *where, plan_once=once)
    mine, others = found
    assert mine
    assert mine == others


def test_what_was_given_up_leaves_no_part_and_is_done_again(
    run_scenario: RunScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the state was cut, and before its part was saved; and by its deadline, before anything was."""

    async def scenario(stepper: Stepper) -> None:
        location = (tmp_path / "durable").as_uri()
        stepper.spec = replace(stepper.spec, checkpoint=replace(stepper.spec.checkpoint, location=location))
        await stepper.new_incarnation()
        await stepper.engine.open(0, create=True)
        await make_steps(stepper, 1)
        checkpoint = await saved(stepper, location)
        work = recut_of(stepper, checkpoint, 4)
        before = files_in(tmp_path / "durable")
        (tmp_path / "late").mkdir()
        with pytest.raises(ConfigurationError, match=r"was not in 4 shards after 0 minutes .--max-minutes."):
            cut_parts(stepper.spark, work, tmp_path, tmp_path / "late", CutDeadline(work, 0.0))
        with monkeypatch.context() as patched:
            patched.setattr(CutDeadline, "has_passed", lambda _: True)
            patched.setattr(CutDeadline, "check", lambda _: None)
            (tmp_path / "cancelled").mkdir()
            with pytest.raises(CheckpointCancelledError):
                cut_parts(stepper.spark, work, tmp_path, tmp_path / "cancelled", CutDeadline(work, 9.0))
        assert files_in(tmp_path / "durable") == before
        (tmp_path / "again").mkdir()
        made = cut_parts(stepper.spark, work, tmp_path, tmp_path / "again", CutDeadline(work, 600))
        assert [part.incarnation for part in made.parts] == [stepper.incarnation + 1]
        # The life that saved the checkpoint may still be there, and know nothing of it.
        await stepper.engine.drop_parts([checkpoint])
        assert set(files_in(tmp_path / "durable")) > set(before)
        resharding.dropped(checkpoint, made.parts, tmp_path)
        assert files_in(tmp_path / "durable") == before

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (3, KEYED)}, TWO)


def files_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
