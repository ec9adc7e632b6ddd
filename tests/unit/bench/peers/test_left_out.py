"""What a machine lacks is said in one sentence, and whoever lacks nothing is measured all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from bench.__main__ import PARTS, PEERS
from bench.figures import Tail
from bench.peers import jvm, measure
from bench.peers.peer import EXACTLY_ONCE, PeerMissingError, missing_packages
from bench.peers.plan import FULL, QUICK, PeerPlan
from bench.peers.report import show_peers
from bench.plan import STREAM, Stream
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


def test_peers_are_measured_only_when_they_are_asked_for() -> None:
    assert PEERS not in PARTS


def test_only_what_was_asked_for_is_measured(sources: list[str]) -> None:
    [found] = measure.measure_peers(
        "", QUICK, [Scripted("one")], lambda _: None, ["passthrough"], ["latency"]
    )
    assert (found.records_per_s, found.latency) == (None, Tail(60, 117, 200, 60_000))
    assert sources == []


def test_everyone_warms_up_for_as_long_as_kcontrol_does_alone() -> None:
    assert FULL.stream == STREAM
    assert FULL.warmed_up_for(5).stream == Stream(STREAM.records_per_s, 5, STREAM.measured_s)


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


def fake_compiler(directory: Path, script: str) -> Java:
    directory.mkdir()
    (directory / "javac").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "javac").chmod(0o755)
    return Java(directory / "java", 17)


def test_a_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = fake_compiler(tmp_path / "bin", f'touch "$5/App.class"; echo once >> {tmp_path}/compiled')
    source, lock = tmp_path / "App.java", tmp_path / "jars.lock"
    source.write_text("class App {}")
    lock.touch()
    [first, again] = [jvm.compiled(source, lock, [], java) for _ in range(2)]
    assert first == again
    assert [path.name for path in first.iterdir()] == ["App.class"]
    assert (tmp_path / "compiled").read_text() == "once\n"


def test_a_program_that_does_not_compile_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = fake_compiler(tmp_path / "bin", "echo no such symbol >&2; exit 1")
    source, lock = tmp_path / "App.java", tmp_path / "jars.lock"
    source.touch()
    lock.touch()
    with pytest.raises(RuntimeError, match=r"App\.java does not compile:\nno such symbol"):
        jvm.compiled(source, lock, [], java)
    assert not list((tmp_path / "cache").rglob("*App*"))


def test_a_package_that_pip_can_not_have_is_told_in_one_sentence() -> None:
    error = subprocess.CalledProcessError(1, ["pip"], stderr="looking\nERROR: no wheel for cp399\n")
    said = missing_packages(Path("bench/requirements.lock"), error)
    assert said.startswith("It needs an environment with the packages of requirements.lock for Python 3.")
    assert said.endswith("pip said: ERROR: no wheel for cp399")
