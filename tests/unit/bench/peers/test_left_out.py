"""What a machine lacks is said in one sentence, and whoever lacks nothing is measured all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from bench.figures import Tail
from bench.peers import jvm, measure
from bench.peers.peer import EXACTLY_ONCE, PeerMissingError, missing_packages
from bench.peers.plan import QUICK, PeerPlan
from bench.peers.report import show_peers
from bench.plan import Stream
from kcontrol.adapters.java import Java
from kcontrol.errors import ArtifactError


class Scripted:
    """Takes part without any process."""

    delivery = EXACTLY_ONCE

    def __init__(self, title: str, lacks: Exception | None = None, loses: bool = False) -> None:
        self.name = self.title = title
        self.workloads: Sequence[str] = ("passthrough", "keyed")
        self._lacks, self._loses = lacks, loses

    def prepare(self) -> None:
        if self._lacks is not None:
            raise self._lacks

    def backlog(self, plan: PeerPlan) -> int:
        return plan.records

    def throughput(self, bootstrap_servers: str, source: str, workload: str, plan: PeerPlan) -> float:
        if self._loses:
            raise RuntimeError("of 9 records 1 are missing")
        return 1_234_567.0

    def latency(self, bootstrap_servers: str, workload: str, stream: Stream) -> Tail:
        return Tail(60, 117, 200, 60_000)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    monkeypatch.setattr(measure, "make_source", lambda servers, name, *_: made.append(name))
    return made


def test_others_go_on_when_one_lacks_something(sources: list[str]) -> None:
    said: list[str] = []
    missing = Scripted("one", lacks=PeerMissingError("It needs javac."))
    unreachable = Scripted("two", lacks=ArtifactError("a:b:1 could not be fetched."))
    found = measure.measure_peers(
        "", QUICK, [missing, unreachable, Scripted("three")], said.append, ["passthrough"]
    )
    assert [(each.title, each.records_per_s, each.failed) for each in found] == [
        ("one", None, "It needs javac."),
        ("two", None, "a:b:1 could not be fetched."),
        ("three", 1_234_567.0, ""),
    ]
    assert said[0] == "one is left out. It needs javac."
    assert len(sources) == 1


def test_a_run_that_loses_a_record_has_no_figure_but_its_latency_is_still_measured(
    sources: list[str],
) -> None:
    [passed, keyed] = measure.measure_peers("", QUICK, [Scripted("one", loses=True)], lambda _: None)
    assert (passed.records_per_s, passed.failed) == (None, "throughput: of 9 records 1 are missing")
    assert passed.latency == Tail(60, 117, 200, 60_000)
    assert keyed.latency is None


def test_the_table_tells_what_is_missing_and_why(sources: list[str]) -> None:
    taking_part = [Scripted("one", lacks=PeerMissingError("It needs javac.")), Scripted("three")]
    shown = Console(width=160)
    with shown.capture() as text:
        show_peers(shown, measure.measure_peers("", QUICK, taking_part, lambda _: None))
    assert "1,234,567" in text.get()
    assert "60, 117, 200" in text.get()
    assert "one, passthrough has no figure. It needs javac." in text.get()


def test_only_what_was_asked_for_is_measured(sources: list[str]) -> None:
    [found] = measure.measure_peers(
        "", QUICK, [Scripted("one")], lambda _: None, ["passthrough"], ["latency"]
    )
    assert (found.records_per_s, found.latency) == (None, Tail(60, 117, 200, 60_000))
    assert sources == []


def test_contenders_are_those_that_were_asked_for() -> None:
    assert [each.name for each in measure.contenders(["quix", "flink"])] == ["flink", "quix"]
    assert tuple(each.name for each in measure.contenders(measure.NAMES)) == measure.NAMES


def test_a_runtime_without_a_compiler_is_told(tmp_path: Path) -> None:
    java = Java(tmp_path / "bin" / "java", 17)
    with pytest.raises(PeerMissingError, match=r"needs javac, .* install a JDK 17, not only a runtime\.$"):
        jvm.find_javac(java, {"PATH": str(tmp_path)})


def test_a_compiler_beside_java_is_taken_before_one_on_the_path(tmp_path: Path) -> None:
    for directory in ("bin", "path"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "javac").touch(mode=0o755)
    java = Java(tmp_path / "bin" / "java", 17)
    assert jvm.find_javac(java, {"PATH": str(tmp_path / "path")}) == str(tmp_path / "bin" / "javac")
    (tmp_path / "bin" / "javac").unlink()
    assert jvm.find_javac(java, {"PATH": str(tmp_path / "path")}) == str(tmp_path / "path" / "javac")


def test_a_package_that_pip_can_not_have_is_told_in_one_sentence() -> None:
    error = subprocess.CalledProcessError(1, ["pip"], stderr="looking\nERROR: no wheel for cp399\n")
    said = missing_packages(Path("bench/requirements.lock"), error)
    assert said.startswith("It needs an environment with the packages of requirements.lock for Python 3.")
    assert said.endswith("pip said: ERROR: no wheel for cp399")
