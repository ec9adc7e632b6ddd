"""Which shards of its queries' state a node's part of a checkpoint holds, and by which files.

A part says so in its manifest, so that another node can be given some of its shards and nothing else. Every file of a state
store is of exactly one of them; what is the same on every node (plans, records, schemas) is of none. A part of which that
is not told, because an older kcontrol has saved it, says as much by the paths of its files and the records of its batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kcontrol.adapters.checkpoints import HeldShard, HeldShards, Manifest, ManifestFile, ManifestShard
from kcontrol.adapters.spark.state.batches import batch_of
from kcontrol.adapters.spark.state.formats import ids_in, unique_ids
from kcontrol.adapters.spark.state.pinning import store_of

Place = tuple[int, int]
"""Operator and partition."""


def held_shards(part: Path, step: int, queries: Iterable[str]) -> HeldShards:
    """Those of queries whose state is divided into shards, in a part that is here, as it is after a step.

    Raises FileNotFoundError, and ConfigurationError for records of a version that is not known.
    """
    found: list[HeldShard] = []
    cut = tuple(query for query in sorted(queries) if (part / query).is_dir())
    for query in cut:
        paths = [path.relative_to(part / query) for path in (part / query).rglob("*") if path.is_file()]
        files = _by_place(path.as_posix() for path in paths)
        for place, ids in sorted(
            _run(unique_ids(part / query / "commits" / str(batch_of(part / query, step)))).items()
        ):
            named = frozenset(f"{query}/{path}" for path in files.get(place, ()))
            found.append(HeldShard(_shard(query, place, ids), named))
    return HeldShards(cut, tuple(found))


def as_told(manifest: Manifest, queries: Mapping[str, str]) -> Manifest:
    """The manifest of an older kcontrol, which names no shards, as it would be if it did. queries: those whose state is cut
    into shards, with the record of the step's batch."""
    shards: list[ManifestShard] = []
    number_of: dict[str, int] = {}
    for query, record in sorted(queries.items()):
        files = _by_place(
            file.path.removeprefix(f"{query}/")
            for file in manifest.files
            if file.path.startswith(f"{query}/")
        )
        for place, ids in sorted(_run(ids_in(record, f"the record of query {query!r}")).items()):
            number_of |= {f"{query}/{path}": len(shards) for path in files.get(place, ())}
            shards.append(_shard(query, place, ids))
    files_of = [file.model_copy(update={"shard": number_of.get(file.path)}) for file in manifest.files]
    told = {"files": tuple(files_of), "cut": tuple(sorted(queries)), "shards": tuple(shards)}
    return manifest.model_copy(update=told)


@dataclass
class HeldOfQuery:
    """What a part holds of a query. cut: its state is divided into shards. plain: files that are of no shard."""

    cut: bool = False
    plain: list[ManifestFile] = field(default_factory=list)
    ids: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    files: dict[Place, list[ManifestFile]] = field(default_factory=dict)
    """Of each shard, as `ids`."""

    @property
    def all(self) -> list[ManifestFile]:
        return [*self.plain, *(file for files in self.files.values() for file in files)]


def by_query(manifest: Manifest) -> dict[str, HeldOfQuery]:
    """What a part holds, by query."""
    found = {query: HeldOfQuery(cut=True) for query in manifest.cut}
    for shard in manifest.shards:
        of_query = found[shard.query]
        of_query.ids[shard.operator, shard.shard] = shard.ids
        of_query.files[shard.operator, shard.shard] = []
    for file in manifest.files:
        if file.shard is None:
            query = file.path.partition("/")[0]
            found.setdefault(query, HeldOfQuery()).plain.append(file)
        else:
            told = manifest.shards[file.shard]
            found[told.query].files[told.operator, told.shard].append(file)
    return found


def _run(ids: Mapping[tuple[str, str], tuple[str, ...]]) -> dict[Place, tuple[str, ...]]:
    """Of the partitions of a record, those that were run."""
    return {
        (int(operator), int(partition)): versions
        for (operator, partition), versions in ids.items()
        if versions
    }


def _shard(query: str, place: Place, ids: tuple[str, ...]) -> ManifestShard:
    return ManifestShard(query=query, operator=place[0], shard=place[1], ids=ids)


def _by_place(paths: Iterable[str]) -> dict[Place, list[str]]:
    found: dict[Place, list[str]] = {}
    for path, place in _placed(paths):
        found.setdefault(place, []).append(path)
    return found


def _placed(paths: Iterable[str]) -> Iterator[tuple[str, Place]]:
    for path in paths:
        place = store_of(PurePosixPath(path))
        if place is not None:
            yield path, place
