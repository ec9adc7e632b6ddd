"""A region of three real pipelines through which records flow, and real controllers of it: killed at each record of a drain,
and hung. Every cut that is kept is recomputed from the outer input before it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcontrol import RegionConsumer
from kcontrol.apps.regions.asking import ask_region, region_reader, request_of
from kcontrol.core.model import HoldPhase
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import DrainMode, RegionState
from kcontrol.core.regions.records import RegionCut, RegionEventKind, RegionRequestKind
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.json import from_json
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S
from tests.integration.regions.three import NAMES, ThreePipelines
from tests.simulation.regions.refold import refolded
from tests.support.processes import KcontrolProcess, run_kcontrol, until

SILENCE_S = "4"
LONGEST_DRAIN = 40
"""Records of a controller from its first to the cut, before and after each: more means that it goes in circles."""


class Region(ThreePipelines):
    def apply(self, **times: str | int | list[str]) -> None:
        definition = {"region": "all", "pipelines": list(NAMES), **times}
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in definition.items()]
        (self.home / "all.toml").write_text("".join(lines))
        self.command("apply", "all.toml")

    def command(self, *arguments: str) -> str:
        done = run_kcontrol("region", *arguments, cwd=self.home, timeout_s=180)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> tuple[int, str]:
        done = run_kcontrol("region", *arguments, cwd=self.home, timeout_s=180)
        return done.returncode, done.stderr

    def drain(self, *options: str) -> RegionCut:
        cut = from_json(
            RegionCut, json.loads(self.command("drain", "all", "--timeout", "150", "--json", *options))
        )
        self.check_kept(cut)
        return cut

    def ask(self) -> RegionCut:
        """As the command does, in this process."""
        request = request_of("all", RegionRequestKind.DRAIN, "a test")
        answer, view = asyncio.run(ask_region(self.settings, request, 150))
        return view.cuts[answer.seq_id]

    def kept(self, cut: RegionCut) -> int:
        """Its number; it is one."""
        self.check_kept(cut)
        return cut.number

    def controller(self, name: str, crash_at: int = 0, by: str = "SIGKILL") -> KcontrolProcess:
        """crash_at: at that record (`tests/support/crashing_region.py`) this signal is sent to itself; 0: never."""
        return KcontrolProcess(
            *("region-controller", "--silence", SILENCE_S),
            log=self.home / f"{name}.log",
            cwd=self.home,
            env={"CRASH_AT": str(crash_at), "CRASH_BY": by},
            module="tests.support.crashing_region" if crash_at else "kcontrol.cli",
        )

    @contextmanager
    def controlled(self, name: str) -> Iterator[KcontrolProcess]:
        with self.controller(name) as process:
            process.says("is ready")
            yield process

    def view(self) -> RegionLogView:
        async def look() -> RegionLogView:
            async with region_reader(self.settings, "all") as reader:
                return await reader.look()

        return asyncio.run(look())

    def check_consumed(self) -> None:
        """Whoever reads cuts gets every step of every pipeline once, up to each cut."""
        with RegionConsumer("all", self.settings, timeout=PATIENCE_S) as cuts:
            done = dict.fromkeys(NAMES, 0)
            for cut in (next(cuts), next(cuts)):
                for name in NAMES:
                    steps = [step.number for step in cut.steps(name)]
                    assert steps == list(range(done[name] + 1, cut.ends[name] + 1)), (name, cut.ends)
                done = dict(cut.ends)
        with RegionConsumer("all", self.settings, after_cut=cut.number, timeout=PATIENCE_S) as later:
            assert next(later).number > cut.number

    def check_log(self) -> None:
        """Each change follows from the one before it, and whoever is new says so first."""
        changes = self.view().changes
        for number in range(2, max(changes) + 1):
            before, now = changes[number - 1], changes[number]
            assert refolded(before, now), (before, now)
            if before.controller != now.controller:
                assert now.happened.kind == "took_over", now

    def until_state(self, state: RegionState) -> None:
        def there() -> bool:
            newest = self.view().newest
            return newest is not None and newest.state is state

        until(there, f"the region is {state}", PATIENCE_S, lambda: self.command("status", "all"))

    def until_nobody_is_held(self) -> None:
        until(lambda: not self.is_any_held(), "nobody is held", PATIENCE_S)


@pytest.fixture
def region(settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path) -> Iterator[Region]:
    """It runs, and records flow."""
    region = Region(settings, tmp_path, topic_factory)
    with region.running(), region.flowing(0.5):
        region.until_all_have_made_a_step()
        yield region


@pytest.mark.heavy
@pytest.mark.timeout(2_000)
def test_a_controller_that_is_killed_at_any_record_of_a_drain_is_succeeded(region: Region) -> None:
    region.apply(trigger="operator_driven")
    code, words = region.refused("drain", "all", "--timeout", "1")
    assert code == 3
    assert "nobody is in charge" in words
    cuts: list[int] = []
    with ThreadPoolExecutor(1) as asking:
        for crash_at in range(1, LONGEST_DRAIN):
            with region.controller(f"crashing-{crash_at}", crash_at) as crashing:
                drained = asking.submit(region.ask)
                until(lambda: has_ended(crashing) or drained.done(), "killed, or drained", 150)  # noqa: B023
                until(lambda: has_ended(crashing) or not region.is_any_held(), "killed, or released", 150)
                if not has_ended(crashing):
                    cuts.append(region.kept(drained.result(150)))
                    stopped(crashing)
                    break
                assert crashing.process is not None
                assert crashing.process.returncode == -signal.SIGKILL, crashing.text()
                with region.controlled(f"next-{crash_at}") as successor:
                    cuts.append(region.kept(drained.result(150)))
                    region.until_nobody_is_held()
                    stopped(successor)
            region.check_log()
        else:
            raise AssertionError(f"a drain is never over within {LONGEST_DRAIN} records")
    assert cuts == sorted(set(cuts)), "no number is used twice"
    assert len(cuts) > 10, cuts


def has_ended(process: KcontrolProcess) -> bool:
    return process.process is not None and process.process.poll() is not None


def cuts_said(controller: KcontrolProcess) -> int:
    """How many it has made since it was started, as it says: to look into the log of regions again and again takes more than
    the drains do."""
    return len(re.findall(r"checkpoint_done of \w+: processing, cut", controller.text()))


def stopped(process: KcontrolProcess) -> None:
    assert process.process is not None
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(PATIENCE_S) == 0, process.text()


@pytest.mark.heavy
@pytest.mark.timeout(580)
def test_a_controller_that_hangs_is_succeeded_and_writes_nothing_more(region: Region) -> None:
    region.apply(trigger="operator_driven", drain_timeout="60 s", triggers=["enrich"])
    with region.controlled("first") as first:
        region.until_state(RegionState.PROCESSING)
        before = region.drain("--as", "enrich").number
        assert "enrich" in {
            each.happened.member
            for each in region.view().changes.values()
            if each.happened.kind is RegionEventKind.DRAIN_ASKED
        }
        code, words = region.refused("drain", "all", "--as", "alerts")
        assert (code, "enrich may, by its triggers" in words) == (1, True), words

        def says_where_drains_begin() -> bool:
            beat = region.view().beat
            return beat is not None and beat.starts == ("enrich",)

        until(says_where_drains_begin, "its beat says where drains begin", PATIENCE_S, first.text)
        with region.controlled("second") as second:
            assert first.process is not None
            first.process.send_signal(signal.SIGSTOP)
            assert region.drain().number > before
            owner = region.view().owner
            first.process.send_signal(signal.SIGCONT)
            first.says("another controller is in charge")
            region.drain()
            assert region.view().owner == owner
            region.check_log()
            stopped(second)
            region.drain()
        assert region.view().owner != owner


@pytest.mark.heavy
@pytest.mark.timeout(580)
def test_periodic_drains_holds_and_what_is_refused(region: Region) -> None:
    region.apply(period="1 s")
    with region.controlled("first") as first:
        until(lambda: len(region.view().cuts) >= 3, "three cuts", PATIENCE_S, first.text)
        for number in region.view().cuts:
            region.check_kept(region.view().cuts[number])

        region.check_consumed()
        held = region.drain("--hold")
        steps = {one.pipeline: one.step for one in held.pipelines}

        def stand() -> dict[str, int]:
            said = {name: region.look(name)[0] for name in NAMES}
            return {
                name: one.step for name, one in said.items() if one is not None and one.hold is not None
                and one.hold.phase is HoldPhase.HELD
            }  # fmt: skip

        until(lambda: stand() == steps, "all stand at the cut", PATIENCE_S, first.text)
        code, words = region.refused("drain", "all")
        assert (code, "region resume" in words) == (1, True), words
        first.kill()
        with region.controlled("second") as second:
            region.until_state(RegionState.PROCESSING)
            assert stand() == steps, "whoever takes over holds them on"
            assert json.loads(region.command("status", "all", "--json"))["newest"]["is_held"]
            region.command("resume", "all")
            region.until_nobody_is_held()
            newest = max(region.view().cuts)
            until(lambda: max(region.view().cuts) > newest, "cuts go on", PATIENCE_S, second.text)
            region.apply(period="1 s", drain="stopped")
            until(
                lambda: region.view().changes[max(region.view().changes)].settings.drain is DrainMode.STOPPED,
                "its controller goes by that",
                PATIENCE_S,
                second.text,
            )
            newest = max(region.view().cuts)
            until(
                lambda: max(region.view().cuts) > newest + 1,
                "cuts of stopped drains",
                PATIENCE_S,
                second.text,
            )
            for cut in (one for at, one in region.view().cuts.items() if at > newest):
                region.check_kept(cut)
            region.command("reset", "all")
            region.check_log()
            assert region.command("cuts", "all", "--last", "2").count("steps: enrich") == 2
            region.command("delete", "all")
            code, words = region.refused("status", "all")
            assert code == 10, words
        region.until_nobody_is_held()
