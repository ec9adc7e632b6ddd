"""The broker's jars: listed in `jars.lock`, fetched once by a Maven resolver (jgo), kept in the
user's cache, verified always.

The lock says what each file must be, so nothing is resolved at run time and no repository has to be trusted.
Files are put in place by an atomic rename after they were verified: two processes may do this at once, and
what a failed run has fetched is kept.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kcontrol.adapters.kafka.embedded.repositories import configured_repositories
from kcontrol.errors import ArtifactError
from kcontrol.settings.places import cache_home

if TYPE_CHECKING:
    from jgo.maven import MavenContext

_log = logging.getLogger(__name__)

_PARALLEL_FETCHES = 6
_FETCH_TIMEOUT_S = 30
_FETCH_ATTEMPTS = 3
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """One line of the lock."""

    group: str
    name: str
    version: str
    sha256: str
    size_bytes: int
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return f"{'-'.join(filter(None, (self.name, self.version, self.classifier)))}.jar"

    def __str__(self) -> str:
        return ":".join(filter(None, (self.group, self.name, self.version, self.classifier)))


def locked_artifacts() -> list[Artifact]:
    """The broker's class path, as `jars.lock` says."""
    return read_lock(files(__package__).joinpath("jars.lock").read_text(encoding="utf-8"))


def read_lock(text: str) -> list[Artifact]:
    """A line a jar: `group:artifact:version[:classifier] SHA-256 SIZE_BYTES`; `#` begins a comment."""
    return [_parse(line) for line in text.splitlines() if line and not line.startswith("#")]


def ensure_jars(cache_dir: Path | None = None, artifacts: Sequence[Artifact] | None = None) -> list[Path]:
    """All jars of the lock, verified, in the cache; missing and damaged ones are fetched.

    Raises ArtifactError: one can't be fetched, or what was fetched is not what the lock
    says. Good ones stay in the cache.
    """
    wanted = locked_artifacts() if artifacts is None else artifacts
    directory = (cache_dir or cache_home()) / "jars"
    missing = [artifact for artifact in wanted if not _is_good(directory / artifact.file_name, artifact)]
    if missing:
        _fetch_all(missing, directory)
    return [directory / artifact.file_name for artifact in wanted]


def _parse(line: str) -> Artifact:
    coordinate, sha256, size = line.split()
    group, name, version, *classifier = coordinate.split(":")
    return Artifact(group, name, version, sha256, int(size), *classifier)


def _is_good(path: Path, artifact: Artifact) -> bool:
    if not path.is_file():
        return False
    found = _sha256(path)
    if found == artifact.sha256:
        return True
    _log.warning(
        "%s is damaged: its SHA-256 is %s and must be %s; fetching it again", path, found, artifact.sha256
    )
    return False


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _fetch_all(missing: Sequence[Artifact], directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="fetch-", dir=directory.parent))
    except OSError as error:
        raise ArtifactError(
            f"The cache directory {directory} can't be written: {error}. Set XDG_CACHE_HOME to one that can."
        ) from error
    megabytes = sum(artifact.size_bytes for artifact in missing) / 1e6
    _log.info("Fetching %d jars (%.0f MB) into %s", len(missing), megabytes, directory)
    # Imported when jars are missing, which is once: it takes longer than all else of this module together.
    from jgo.maven import MavenContext

    context = MavenContext(
        repo_cache=scratch, remote_repos=configured_repositories(), timeout=_FETCH_TIMEOUT_S
    )
    try:
        with ThreadPoolExecutor(_PARALLEL_FETCHES) as pool:
            # Every fetch runs to its end before the first failure is raised, so that the good files are kept.
            fetches = [pool.submit(_fetch, context, artifact, directory) for artifact in missing]
        for fetch in fetches:
            fetch.result()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fetch(context: MavenContext, artifact: Artifact, directory: Path) -> None:
    fetched = _download(context, artifact)
    found = _sha256(fetched)
    if found != artifact.sha256:
        raise ArtifactError(
            f"The repository served another {artifact} than the one that is recorded: SHA-256 {found} with "
            f"{fetched.stat().st_size} bytes instead of {artifact.sha256} with {artifact.size_bytes} bytes. "
            "It was not kept. Check the repository or mirror that this machine uses."
        )
    fetched.replace(directory / artifact.file_name)


def _download(context: MavenContext, artifact: Artifact) -> Path:
    wanted = (
        context.project(artifact.group, artifact.name)
        .at_version(artifact.version)
        .artifact(classifier=artifact.classifier)
    )
    failure: Exception | None = None
    for _ in range(_FETCH_ATTEMPTS):
        try:
            return Path(wanted.resolve())
        except OSError as error:  # all network errors of `requests` are OSErrors
            failure = error
            if wanted.cached_path is not None:
                # The resolver leaves what it has got and would take it for the whole file.
                wanted.cached_path.unlink(missing_ok=True)
        except RuntimeError as error:
            failure = error
            break
    raise ArtifactError(
        f"{artifact} could not be fetched: {failure}. Connect this machine to a Maven repository (a mirror "
        "in ~/.m2/settings.xml is honoured), or, when it is for the broker, use a Kafka of your own with "
        "--bootstrap-servers."
    ) from failure
