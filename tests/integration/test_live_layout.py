"""A pipeline with state goes from one node to three and to two while it makes steps: it never stops, nothing of its state is
lost, and nothing of it is there twice."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.model import StepBoundary
from kcontrol.core.step.assignment import Owners, owners_of
from kcontrol.errors import LeftOutError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.integration.test_layout_nodes import Changed
from tests.support.exchanged import FILE, Exchanged
from tests.support.following import until_step
from tests.support.processes import KcontrolProcess, run_kcontrol, until
from tests.support.spark_hash import shard_of_text

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

_EACH, _EVERY_S = 6, 0.3
_SHARDS, _HEAVY = 4, (0, 2)
"""As they are dealt, the heavy ones are node 0's."""


@contextmanager
def under_load(pipeline: Exchanged, each: int = _EACH) -> Iterator[None]:
    """Records come all the time, so many at once."""
    over = threading.Event()

    def produce() -> None:
        while not over.wait(_EVERY_S):
            pipeline.produce(each)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()


def _new_node(changed: Changed, node: int) -> KcontrolProcess:
    log = changed.directory / f"node-{node}.log"
    arguments = ("node", str(FILE), "--node", str(node), "--new", "--no-archive", "--master", "local[1]")
    return KcontrolProcess(*arguments, env=changed.env, cwd=changed.directory, log=log)


def until_made_by(pipeline: Exchanged, nodes: int) -> None:
    """Wait for a step that so many nodes made."""
    _until(pipeline, lambda step: step.nodes == nodes, f"a step is made by {nodes} nodes")


def _until(pipeline: Exchanged, condition: Callable[[StepBoundary], bool], what: str) -> None:
    until_step(
        *(pipeline.settings, pipeline.name, condition, what, PATIENCE_S),
        lambda: run_kcontrol("status", pipeline.name, env=pipeline.env).stdout,
    )


def _divided(pipeline: Exchanged) -> tuple[int, Owners]:
    """How often the layout was changed, and whose each shard is."""

    async def read() -> tuple[int, Owners]:
        async with pipeline_logs(pipeline.settings, pipeline.name) as logs:
            await logs.read()
            spec = logs.spec()
            return spec.assignment, owners_of(spec)

    return asyncio.run(read())


def _longest_gap_ms(steps: list[dict[str, Any]], nodes: int) -> int:
    """Around the first step that so many nodes made."""
    first = next(index for index, step in enumerate(steps) if step["nodes"] == nodes)
    around = steps[max(0, first - 2) : first + 3]
    return max(after["committed_ms"] - before["committed_ms"] for before, after in itertools.pairwise(around))


@pytest.mark.parametrize("queries", [("spent", "named"), ("seen", "windows")], ids=",".join)
def test_a_pipeline_goes_from_one_node_to_three_and_to_two_while_it_makes_steps(
    settings: ClusterSettings, tmp_path: Path, queries: tuple[str, ...]
) -> None:
    changed = Changed(settings, tmp_path, queries, nodes=1)
    pipeline = changed.pipeline
    with ExitStack() as stack:
        log = tmp_path / "run.log"
        run = ("run", str(FILE), "--node", "0", "--master", "local[1]")
        stack.enter_context(KcontrolProcess(*run, env=changed.env, cwd=tmp_path, log=log))
        pipeline.produce(_EACH)
        until_made_by(pipeline, 1)
        new = [stack.enter_context(_new_node(changed, node)) for node in (1, 2)]
        stack.enter_context(under_load(pipeline))

        said = changed.layout("--nodes", "3")
        assert (said["changed"], said["live"], said["nodes"]) == (True, True, 3)
        assert said["moved_bytes"] > 0
        until_made_by(pipeline, 3)
        # Those that are new, and that which stays and gets other queries, have run them once before.
        assert all("is not warm" not in text for text in (log.read_text(), *(each.text() for each in new)))

        left = changed.layout("--without", "2")
        assert (left["nodes"], [move["from"] for move in left["moves"]]) == (2, [2])
        until_made_by(pipeline, 2)
        until(
            lambda: new[1].process and new[1].process.poll() is not None,
            "node 2 ends",
            PATIENCE_S,
            new[1].text,
        )
        assert new[1].process is not None
        assert new[1].process.returncode == LeftOutError.exit_code
        assert not changed.command("pause", pipeline.name).returncode
    pipeline.nodes = 2
    with ExitStack() as stack:
        run = ("run", str(FILE), "--master", "local[1]")
        stack.enter_context(KcontrolProcess(*run, env=changed.env, cwd=tmp_path, log=tmp_path / "again.log"))
        pipeline.until_done("all is committed", PATIENCE_S)
        assert not changed.command("stop", pipeline.name).returncode
    steps = pipeline.check()
    assert sorted({step["nodes"] for step in steps}) == [1, 2, 3]
    print("gaps", {nodes: _longest_gap_ms(steps, nodes) for nodes in (3, 2)})  # noqa: T201 - shown with -s
    print(json.dumps([(s["step"], s["nodes"], s["committed_ms"]) for s in steps]))  # noqa: T201


def test_state_is_divided_anew_by_itself_when_one_node_has_most_of_it(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    names = [f"user-{number}-{secrets.token_hex(1_000)}" for number in range(300)]
    users = [name for name in names if shard_of_text(name, _SHARDS) in _HEAVY]
    pipeline = Exchanged(settings, ("spent",), 2, shards=_SHARDS, rebalances=True, users=users)
    env = {**pipeline.env, "XDG_DATA_HOME": str(tmp_path / "home")}
    with ExitStack() as stack:
        run = ("run", str(FILE), "--master", "local[1]")
        stack.enter_context(KcontrolProcess(*run, env=env, cwd=tmp_path, log=tmp_path / "run.log"))
        pipeline.produce(len(users))
        until_made_by(pipeline, 2)
        stack.enter_context(under_load(pipeline, each=1))
        pipeline.until_status(lambda status: status.layout.number, "state is divided anew", PATIENCE_S)
        made = pipeline.steps()[-1]["step"]
        _until(pipeline, lambda step: step.step > made + 5, "steps go on")
    with ExitStack() as stack:
        stack.enter_context(KcontrolProcess(*run, env=env, cwd=tmp_path, log=tmp_path / "again.log"))
        pipeline.until_done("all is committed", PATIENCE_S)
        number, owners = _divided(pipeline)
        assert number == 1
        # Whose the light ones are is a matter of some bytes.
        assert {owners[shard] for shard in _HEAVY} == {0, 1}
        assert not run_kcontrol("stop", pipeline.name, env=env).returncode
    pipeline.check()


def test_a_node_is_replaced_while_the_pipeline_makes_steps(settings: ClusterSettings, tmp_path: Path) -> None:
    changed = Changed(settings, tmp_path, ("spent",), nodes=2)
    pipeline = changed.pipeline

    def node(name: str, *how: str) -> KcontrolProcess:
        arguments = ("node", str(FILE), "--node", "1", *how, "--no-archive", "--master", "local[1]")
        return KcontrolProcess(*arguments, env=changed.env, cwd=tmp_path, log=tmp_path / f"{name}.log")

    with ExitStack() as stack:
        run = ("run", str(FILE), "--node", "0", "--master", "local[1]")
        stack.enter_context(KcontrolProcess(*run, env=changed.env, cwd=tmp_path, log=tmp_path / "run.log"))
        before = stack.enter_context(node("before"))
        pipeline.produce(_EACH)
        until_made_by(pipeline, 2)
        after = stack.enter_context(node("after", "--instead"))
        stack.enter_context(under_load(pipeline))
        said = changed.layout("--replace", "1")
        assert (said["live"], said["nodes"], said["replaced"], said["moves"]) == (True, 2, [1], [])
        until(
            lambda: before.process and before.process.poll() is not None, "it ends", PATIENCE_S, before.text
        )
        assert before.process is not None
        assert before.process.returncode == LeftOutError.exit_code
        _until(pipeline, lambda step: step.step > said["after_step"] + 1, "steps go on")
        assert after.process is not None
        assert after.process.poll() is None
        assert not changed.command("pause", pipeline.name).returncode
    with ExitStack() as stack:
        run = ("run", str(FILE), "--master", "local[1]")
        stack.enter_context(KcontrolProcess(*run, env=changed.env, cwd=tmp_path, log=tmp_path / "again.log"))
        pipeline.until_done("all is committed", PATIENCE_S)
        assert not changed.command("stop", pipeline.name).returncode
    pipeline.check()
