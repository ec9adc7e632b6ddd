"""A ConsistentRegion on a real broker, with a real controller: what the operator does in each pass, by operators that live for
one pass or few. The resource is kept here, as an API server would."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.apps.kubernetes.kafka_side import KafkaSide
from kcontrol.apps.kubernetes.regions import RegionsPass
from kcontrol.apps.kubernetes.rollbacks import RollbacksAsked
from kcontrol.apps.kubernetes.scene import Scene
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.regions.asking import region_reader
from kcontrol.apps.regions.rollbacks import rollbacks_of
from kcontrol.core.kubernetes.resources import REGION
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.records import RegionEventKind
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S, Chain
from tests.integration.regions.test_region import has_ended
from tests.support.processes import KcontrolProcess, run_kcontrol
from tests.support.serving import client_of, serving
from tests.unit.kubernetes.resources import resource

REGION_NAME = "all"
_LOOK_S = 0.2
Done = Callable[[dict[str, Any]], bool]


class _Resources:
    """What RegionsPass needs of an API server, for one resource."""

    def __init__(self, *, writes: bool = True) -> None:
        self._writes = writes

    async def put_status(self, found: dict[str, Any], status: dict[str, Any]) -> None:
        if self._writes:
            found["status"] = status

    async def set_finalizers(self, found: dict[str, Any], finalizers: tuple[str, ...]) -> None:
        found["metadata"]["finalizers"] = list(finalizers)


class ByResource(Chain):
    """`first` passes on what `second` reads, and a resource names both."""

    def __init__(self, settings: ClusterSettings, home: Path, new_topic: TopicFactory) -> None:
        super().__init__(settings, home)
        self.rows, self.between = new_topic("rows", partitions=1), new_topic("between", partitions=1)
        self.submit("first", [self.rows], self.between)
        self.submit("second", [self.between], new_topic("out", partitions=1))
        self.resource = self.made("one")
        self.controller = KcontrolProcess("region-controller", log=home / "controller.log", cwd=home)
        self.crashing = KcontrolProcess(
            "region-controller",
            log=home / "crashing.log",
            cwd=home,
            env={"CRASH_AT": "0", "CRASH_AFTER_RESETS": "1"},
            module="tests.support.crashing_region",
        )

    def made(self, uid: str, **spec: Any) -> dict[str, Any]:
        given = {"pipelines": ["first", "second"], "trigger": "operatorDriven", **spec}
        return resource(REGION, REGION_NAME, given, uid=uid)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource.get("status", {})
        return found

    def cut_and_gone_wrong(self) -> int:
        """Its cut, behind which `first` has read what nobody should."""
        self.produce(self.rows, 0, "a", "b")
        self.until_read("second", self.between, 0, 2)
        self.resource["spec"]["drainRequest"] = {"id": "cut", "hold": False}
        self.operate(lambda status: status.get("answers", {}).get("drain") == "done")
        cut: int = self.status["lastCompletedSeqID"]
        self.produce(self.rows, 0, "wrong")
        self.until_read("first", self.rows, 0, 3)
        return cut

    def operate(self, done: Done, passes: int = 1_000) -> None:
        """Until it says so, by operators that live for so many passes, each for twice as many as the one before: some
        end in the middle of a plan. What every other one has found is lost with it."""

        async def live(*, writes: bool) -> bool:
            kafka, asked = KafkaSide(self.settings), RollbacksAsked(rollbacks_of(self.settings, self.home))
            scene = Scene([], [self.resource], [], {}, [])
            objects = cast(Any, _Resources(writes=writes))
            doing = RegionsPass(objects, kafka, asked, scene, SystemClock())
            try:
                for _ in range(passes):
                    await doing.region(self.resource)
                    if done(self.status):
                        return True
                    if time.monotonic() > deadline_s:
                        raise TimeoutError(f"{self.status}\n{self.controller.text()[-3000:]}")
                    await asyncio.sleep(_LOOK_S)
            finally:
                await asked.close()
                await kafka.close()
            return False

        deadline_s, writes = time.monotonic() + PATIENCE_S, True
        while not asyncio.run(live(writes=writes)):
            writes, passes = not writes, 2 * passes

    def wish(self, name: str, to_cut: int) -> None:
        """For what is seen now."""
        wanted = {"id": name, "toCut": to_cut, "asOf": self.status["change"], "why": "a wrong rate"}
        self.resource["spec"]["rollbackRequest"] = wanted

    def ends(self, name: str, passes: int = 1_000) -> dict[str, Any]:
        """The condition, once it is known what became of that."""
        ended = ("Done", "Refused", "Superseded")
        self.operate(
            lambda status: status["rollback"]["id"] == name and status["rollback"]["stage"] in ended, passes
        )
        [found] = [each for each in self.status["conditions"] if each["type"] == "RolledBack"]
        return dict(found)

    def refused(self, name: str, to_cut: int, words: str) -> None:
        """It is, with these words: asked again as long as the region has come to another change since it was looked at, as it
        may whenever somebody is missed for a moment."""
        deadline_s = time.monotonic() + PATIENCE_S
        for number in itertools.count():
            self.wish(f"{name}-{number}", to_cut)
            found = self.ends(f"{name}-{number}")
            assert found["status"] == "False", found
            if words in found["message"]:
                return
            assert "has come to change" in found["message"], found
            assert time.monotonic() < deadline_s, found

    def begun(self) -> int:
        """How many rollbacks the region's log has."""

        async def look() -> int:
            async with region_reader(self.settings, REGION_NAME) as reader:
                changes = (await reader.look()).changes.values()
                return sum(each.happened.kind is RegionEventKind.ROLLBACK_ASKED for each in changes)

        return asyncio.run(look())

    def boundaries(self, name: str) -> list[StepBoundary]:
        async def read() -> list[StepBoundary]:
            async with pipeline_logs(self.settings, name) as logs:
                found = await logs.read_steps(1, None)
                return [each.record for each in found if isinstance(each.record, StepBoundary)]

        return asyncio.run(read())

    def until_back(self, cut: int) -> None:
        """As a person does who has killed all processes: again, until nobody is taken to be at work any more."""
        deadline_s = time.monotonic() + PATIENCE_S
        for number in itertools.count():
            self.wish(f"back-{number}", cut)
            found = self.ends(f"back-{number}", passes=2)
            if found["status"] == "True":
                return
            assert "Stop it first" in found["message"] or "has come to change" in found["message"], found
            assert time.monotonic() < deadline_s, found

    def until_half_back(self, cut: int) -> None:
        """Until the controller that does so is killed in the midst of it."""
        deadline_s = time.monotonic() + PATIENCE_S
        for number in itertools.count():
            name = f"half-{number}"
            self.wish(name, cut)

            def is_over(status: dict[str, Any], name: str = name) -> bool:
                said = status["rollback"]
                return has_ended(self.crashing) or (said["id"] == name and said["stage"] == "Refused")

            self.operate(is_over)
            if has_ended(self.crashing):
                return
            why = self.status["rollback"]["why"]
            assert "Stop it first" in why or "has come to change" in why, why
            assert time.monotonic() < deadline_s, why

    def asks_to_give_up(self, name: str, to_cut: int, words: str) -> None:
        """By the resource, for what is seen now."""
        wish = {"id": name, "toCut": to_cut, "asOf": self.status["change"], "why": "second is lost"}
        self.resource["spec"]["abandonRequest"] = wish
        self.operate(
            lambda status: (
                status.get("abandon", {}).get("id") == name and status["abandon"]["stage"] != "Asked"
            )
        )
        assert words in self.status["abandon"]["why"], self.status

    @contextmanager
    def served(self, *options: str) -> Iterator[Callable[[int], tuple[int, str]]]:
        """What a server answers to who would give up a rollback to a cut."""
        with serving(self.home, *options) as process, closing(client_of(process)) as client:

            def give_up(to_cut: int) -> tuple[int, str]:
                answer = client.post(f"/v1/regions/{REGION_NAME}/rollback/abandon", json={"to_cut": to_cut})
                return answer.status_code, answer.text

            yield give_up


@pytest.mark.timeout(580)
def test_a_region_is_taken_back_once_by_its_resource(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    chain = ByResource(settings, tmp_path, topic_factory)
    with chain.controller:
        with chain.running():
            cut = chain.cut_and_gone_wrong()
            assert chain.status["participants"] == []
            chain.refused("too-early", cut, "Stop it first")
        chain.operate(lambda status: status["state"] == "unhealthy")
        chain.refused("no-cut", cut + 7, "is not in the log of region")
        assert chain.begun() == 0
        chain.until_back(cut)
        assert chain.status["lastCompletedSeqID"] == cut
        for name in ("first", "second"):
            resets = Counter(one.reset.request_id for one in chain.boundaries(name) if one.reset is not None)
            assert list(resets.values()) in ([1], []), (name, resets)
        assert any(one.reset is not None for one in chain.boundaries("first"))
        wish = chain.resource["spec"]["rollbackRequest"]
        chain.resource = chain.made("two", rollbackRequest=wish)
        again = chain.ends(wish["id"])
        assert (again["status"], again["reason"]) == ("False", "Refused"), again
        assert chain.begun() == 1
        with chain.running():
            chain.produce(chain.rows, 0, "right")
            chain.until_read("second", chain.between, 0, 4)
            chain.operate(lambda status: status["state"] == "processing")


@pytest.mark.timeout(580)
def test_a_rollback_that_can_not_be_completed_is_given_up_by_who_has_seen_it(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    """`first` is back when its controller is killed, and `second` is lost then. Who means another rollback is told which one
    is under way: by the command, over REST and by the resource, which gives it up."""
    chain = ByResource(settings, tmp_path, topic_factory)
    with chain.crashing:
        with chain.running():
            cut = chain.cut_and_gone_wrong()
        chain.operate(lambda status: status["state"] == "unhealthy")
        chain.until_half_back(cut)
    TopicAdmin(chain.settings).delete(chain.settings.names().steps_topic("second"))
    with chain.controller:
        chain.operate(lambda status: any("There is no topic" in why for why in status["waitsFor"]))
        done = run_kcontrol(
            *("region", "rollback", REGION_NAME, "--abandon", "--to-cut", str(cut + 7)), cwd=tmp_path
        )
        assert (done.returncode, f"is to cut {cut}, asked for by" in done.stderr) == (1, True), done.stderr
        with chain.served() as give_up:
            code, words = give_up(cut)
            assert (code, "--allow-resets" in words) == (409, True), words
        with chain.served("--allow-resets") as give_up:
            code, words = give_up(cut + 7)
            assert (code, f"and not to cut {cut + 7}" in words) == (409, True), words
            chain.asks_to_give_up("other", cut + 7, f"and not to cut {cut + 7}")
            assert chain.status["state"] == "going_back"
            chain.asks_to_give_up("lost", cut, f"back at cut {cut}: first; not: second")
            assert (chain.status["abandon"]["stage"], chain.status["lastCompletedSeqID"]) == ("Done", cut)
            chain.operate(lambda status: status["rollback"]["stage"] == "Superseded")
            assert "it was given up by kubernetes" in chain.status["rollback"]["why"]
            assert sum(one.reset is not None for one in chain.boundaries("first")) == 1
            code, words = give_up(cut)
            assert (code, "no rollback of it is under way" in words) == (409, True), words
