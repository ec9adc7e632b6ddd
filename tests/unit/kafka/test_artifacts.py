"""The broker's jars against a Maven repository on this machine: fetched, verified, kept, and shared by
processes."""

from __future__ import annotations

import hashlib
import multiprocessing
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.embedded import artifacts as fetching
from kcontrol.adapters.kafka.embedded.artifacts import Artifact, ensure_jars, locked_artifacts
from kcontrol.adapters.kafka.embedded.repositories import configured_repositories
from kcontrol.errors import ArtifactError, ConfigurationError
from kcontrol.settings.places import cache_home
from tests.support.patience import HANG_S


class Repository:
    """A directory in Maven's layout, served over HTTP; `asked` are the paths that were requested."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.asked: list[str] = []

    def put(self, name: str, content: bytes) -> Artifact:
        directory = self._root / "org" / "example" / name / "1.0"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}-1.0.jar").write_bytes(content)
        return Artifact("org.example", name, "1.0", hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    root = tmp_path / "repository"
    root.mkdir()
    served = Repository(root)

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setattr(fetching, "_FETCH_TIMEOUT_S", HANG_S)
    yield served
    server.shutdown()
    server.server_close()


def test_the_lock_names_each_jar_once_with_its_sum() -> None:
    artifacts = locked_artifacts()
    assert len({artifact.file_name for artifact in artifacts}) == len(artifacts) == 46
    assert all(len(artifact.sha256) == 64 and artifact.size_bytes > 0 for artifact in artifacts)
    assert {str(artifact) for artifact in artifacts} >= {
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-server:4.3.1",
    }


def test_jars_are_fetched_once(repository: Repository, tmp_path: Path) -> None:
    artifacts = [repository.put("one", b"1"), repository.put("two", b"22")]
    paths = ensure_jars(tmp_path / "cache", artifacts)
    assert [path.read_bytes() for path in paths] == [b"1", b"22"]
    repository.asked.clear()
    assert ensure_jars(tmp_path / "cache", artifacts) == paths
    assert repository.asked == []


def test_a_jar_that_was_damaged_in_the_cache_is_fetched_again(repository: Repository, tmp_path: Path) -> None:
    artifact = repository.put("one", b"right")
    (path,) = ensure_jars(tmp_path / "cache", [artifact])
    path.write_bytes(b"wrong")
    ensure_jars(tmp_path / "cache", [artifact])
    assert path.read_bytes() == b"right"


def test_another_jar_than_the_locked_one_is_refused_and_the_good_ones_are_kept(
    repository: Repository, tmp_path: Path
) -> None:
    good, other = repository.put("good", b"good"), repository.put("other", b"expected")
    repository.put("other", b"something else")
    with pytest.raises(ArtifactError) as raised:
        ensure_jars(tmp_path / "cache", [other, good])
    for part in ("org.example:other:1.0", other.sha256, hashlib.sha256(b"something else").hexdigest()):
        assert part in str(raised.value)
    assert [path.name for path in (tmp_path / "cache" / "jars").iterdir()] == ["good-1.0.jar"]


def test_a_jar_that_the_repository_has_not_got_is_named_and_the_good_ones_are_kept(
    repository: Repository, tmp_path: Path
) -> None:
    good = repository.put("good", b"good")
    absent = Artifact("org.example", "absent", "1.0", "0" * 64, 1)
    with pytest.raises(ArtifactError, match=r"org\.example:absent:1\.0.*could not be fetched"):
        ensure_jars(tmp_path / "cache", [absent, good])
    assert [path.name for path in (tmp_path / "cache" / "jars").iterdir()] == ["good-1.0.jar"]


def test_a_repository_that_is_not_there_is_an_error_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9")
    with pytest.raises(ArtifactError, match="--bootstrap-servers"):
        ensure_jars(tmp_path, [Artifact("org.example", "one", "1.0", "0" * 64, 1)])


def test_a_cache_that_cant_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ArtifactError, match="XDG_CACHE_HOME"):
        ensure_jars(tmp_path / "file", [Artifact("org.example", "one", "1.0", "0" * 64, 1)])


def _fetched(cache: Path, artifacts: list[Artifact]) -> list[Path]:
    """In a process of its own."""
    fetching._FETCH_TIMEOUT_S = HANG_S
    return ensure_jars(cache, artifacts)


def test_processes_that_fetch_at_once_all_find_whole_files(repository: Repository, tmp_path: Path) -> None:
    artifacts = [repository.put(f"jar{number}", bytes([number]) * 300_000) for number in range(6)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        found = pool.starmap(_fetched, [(tmp_path / "cache", artifacts)] * 3)
    for paths in found:
        assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths] == [
            each.sha256 for each in artifacts
        ]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["jars"]


def test_the_cache_is_where_the_user_keeps_caches(tmp_path: Path) -> None:
    assert cache_home({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "kcontrol"
    assert cache_home({}) == Path.home() / ".cache" / "kcontrol"


@pytest.mark.parametrize(
    ("mirror_of", "expected"),
    [
        ("central", True),
        ("*", True),
        ("external:*", True),
        ("a, central", True),
        ("a", False),
        ("*,!central", False),
    ],
)
def test_a_maven_mirror_of_central_is_honoured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror_of: str, expected: bool
) -> None:
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "none"))
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors><mirror>'
        f"<mirrorOf>{mirror_of}</mirrorOf><url>http://127.0.0.1:1/maven/</url></mirror></mirrors></settings>"
    )
    found = configured_repositories({"HOME": str(tmp_path)})
    assert found == ({"mirror": "http://127.0.0.1:1/maven"} if expected else None)


def test_settings_that_are_not_xml_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "none"))
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(ConfigurationError, match=r"settings\.xml is not valid XML"):
        configured_repositories({"HOME": str(tmp_path)})
