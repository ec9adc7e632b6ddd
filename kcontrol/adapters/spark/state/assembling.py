"""A node's directory out of the parts of a checkpoint that several nodes have saved.

Since a shard's files lie in directories of their own, and what else a query has is the same on every node, a directory is put
together of three things: the plain files of one part, the shards that the node owns out of the parts of those who owned
them then, and a record of the step's batch that names the versions of exactly these and says of all others that they were
not run (decision 077). Spark opens it like one of its own. So it is whoever is to own what: a node that owns other shards
than before, one that is new, and one that owns all of them, as the tables of `kcontrol query` do.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kcontrol.adapters.checkpoints import BroughtBytes, CheckpointStore, Manifest, ManifestFile
from kcontrol.adapters.spark.state.batches import batch_of, numbered, step_of
from kcontrol.adapters.spark.state.formats import (
    partition_counts,
    planned_ends,
    record_with_ids,
    with_sources,
)
from kcontrol.adapters.spark.state.holding import HeldOfQuery, Place, as_told, by_query
from kcontrol.adapters.spark.state.lineage import STATE
from kcontrol.core.step.assignment import Owners, owned_by
from kcontrol.errors import CheckpointDamagedError, CheckpointError


@dataclass(frozen=True, slots=True)
class QueryNeeds:
    """What a query is that a node is to run. cut: its state is divided into shards. sources: how many streams its plan
    reads; 0: as many as it read."""

    stateful: bool
    cut: bool
    sources: int = 0


@dataclass(frozen=True, slots=True)
class Taker:
    """The node whose directory it is to be. owner: of each shard, from now on."""

    node: int
    owner: Owners

    @property
    def shards(self) -> frozenset[int]:
        return owned_by(self.owner, self.node)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What a directory was put together of. moved_bytes: of state that another node had. kept_bytes: that this one had.
    fetched: how both, and all else, came here."""

    moved_bytes: int = 0
    kept_bytes: int = 0
    fetched: BroughtBytes = field(default_factory=BroughtBytes)

    def __add__(self, other: Assembled) -> Assembled:
        return Assembled(
            self.moved_bytes + other.moved_bytes,
            self.kept_bytes + other.kept_bytes,
            self.fetched + other.fetched,
        )


AtHand = Callable[[str], Iterable[Path]]
"""Given a file's path in a part: where on this machine the same file may be."""


class PartsOfNodes:
    """The parts of one checkpoint, whose manifests are read when they are first needed.

    location: as a store takes it. manifests: by node. owner: of each shard, when the checkpoint was made. Used by one
    thread at a time. All methods raise CheckpointError: a part that is needed can't be read, or is not as it was.
    """

    def __init__(
        self, store: CheckpointStore, location: str, step: int, manifests: Mapping[int, str], owner: Owners
    ) -> None:
        self._store, self._location, self._manifests = store, location, dict(manifests)
        self.step, self.owner = step, owner
        self.nodes = tuple(sorted(self._manifests))
        """Those that have a part."""
        self._held: dict[int, dict[str, HeldOfQuery]] = {}

    def held(self, node: int) -> Mapping[str, HeldOfQuery]:
        """What the part of a node holds, by query."""
        if node not in self._held:
            read = self._store.manifest(self._location, self._manifests[node])
            # One that an older kcontrol has saved does not say what it holds. Of a single node that was everything.
            told = read.cut or len(self.nodes) > 1
            self._held[node] = by_query(read if told else as_told(read, self._records(node, read)))
        return self._held[node]

    def _records(self, node: int, manifest: Manifest) -> dict[str, str]:
        """By query with state, the record of the step's batch."""
        return {
            query: self._store.content(self._location, self._manifests[node], file).decode()
            for query, held in by_query(manifest).items()
            if any(file.path.startswith(f"{query}/{STATE}/") for file in held.plain)
            for file in held.plain
            if _is_record(file.path, query)
        }

    def base(self, query: str, node: int) -> int | None:
        """Out of whose part a node takes a query's plain files: its own, or that of the lowest number; None: nobody ran
        the query."""
        own = [node] if node in self._manifests else []
        return next((each for each in (*own, *self.nodes) if query in self.held(each)), None)

    def with_state(self) -> dict[str, list[int]]:
        """The queries that keep state, each with the nodes whose parts have some of it."""
        found: dict[str, list[int]] = {}
        for node in self.nodes:
            for query, held in self.held(node).items():
                if held.cut or any(file.path.startswith(f"{query}/{STATE}/") for file in held.plain):
                    found.setdefault(query, []).append(node)
        return found

    def bring_whole(self, query: str, node: int, target: Path) -> None:
        """What the part of a node has of a query, as it is."""
        wanted = self.held(node)[query].all
        self._store.fetch(self._location, self._manifests[node], wanted, target)

    def bring_plain(self, query: str, node: int, target: Path) -> None:
        """What the part of a node has of a query that is of no shard."""
        wanted = self.held(node)[query].plain
        self._store.fetch(self._location, self._manifests[node], wanted, target)

    # --- which files ----------------------------------------------------------------------------------------

    def readable(self, queries: Mapping[str, QueryNeeds], taker: Taker) -> bool:
        """Whether all that a node needs is stored. Contents are checked by `bring`."""
        wanted: dict[int, list[ManifestFile]] = {}
        for query, needs in queries.items():
            for donor, files in self.chosen(query, needs, taker).items():
                wanted.setdefault(donor, []).extend(files)
        return all(
            self._store.stored(self._location, self._manifests[node], files) for node, files in wanted.items()
        )

    def chosen(self, query: str, needs: QueryNeeds, taker: Taker) -> Mapping[int, list[ManifestFile]]:
        """By node out of whose part they come, the files that a query needs; nothing, if nobody ran it and it can begin
        without any.

        Raises CheckpointError also if its state does not follow the shards.
        """
        base = self.base(query, taker.node)
        if base is None:
            if needs.stateful:
                raise CheckpointError(
                    f"the checkpoint of step {self.step} holds nothing of query {query!r}: it is of other queries than "
                    "the pipeline has now; open another checkpoint or create anew"
                )
            return {}
        there = self.held(base)[query]
        if not needs.stateful:
            return {base: there.all}
        if not (needs.cut and there.cut):
            if base == taker.node and self.owner == taker.owner:
                return {base: there.all}
            raise CheckpointError(
                f"the state of query {query!r} in the checkpoint of step {self.step} is not divided into shards, so node "
                f"{taker.node} can't be given a part of it: have its rows exchanged, or go back to the nodes of then"
            )
        found = {base: list(there.plain)}
        for place, donor in self.donors(query, base, taker).items():
            found.setdefault(donor, []).extend(self.held(donor)[query].files[place])
        return found

    def donors(self, query: str, base: int, taker: Taker) -> dict[Place, int]:
        """By operator and shard, out of whose part a query's state comes: of those who owned it.

        Where the query was run whole on every node, because its rows move after the state, it goes on so: what the node
        does not own comes from one that had no rows of it.
        """
        if len(self.owner) != len(taker.owner):
            raise CheckpointError(
                f"the checkpoint of step {self.step} has {len(self.owner)} shards and the pipeline has {len(taker.owner)}"
            )
        ran = self.held(base)[query].ids
        whole = len(self.nodes) > 1 and any(self.owner[shard] != base for _, shard in ran)
        found: dict[Place, int] = {}
        for shard, then in enumerate(self.owner):
            if shard in taker.shards:
                donor = then
            elif whole:
                donor = next(each for each in (base, *self.nodes) if each != then)
            else:
                continue
            if donor not in self._manifests:
                raise CheckpointDamagedError(
                    f"the checkpoint of step {self.step} has no part of node {donor}, which owned shard {shard}; choose "
                    "an older checkpoint"
                )
            held = self.held(donor).get(query, HeldOfQuery())
            found |= {place: donor for place in held.ids if place[1] == shard}
        return found

    def moved(
        self, queries: Mapping[str, QueryNeeds], taker: Taker, *, whole: bool = False
    ) -> dict[int, list[ManifestFile]]:
        """By node that has it, the state that another node is to have; whole: and its own. Raises CheckpointError."""
        found: dict[int, list[ManifestFile]] = {}
        for query, needs in queries.items():
            for donor, files in self.chosen(query, needs, taker).items():
                if whole or donor != taker.node:
                    found.setdefault(donor, []).extend(file for file in files if file.shard is not None)
        return found

    def bring_moved(
        self, moved: Mapping[int, list[ManifestFile]], target: Path, at_hand: AtHand
    ) -> BroughtBytes:
        """Put these files below `target`, by their paths in the parts; how they came. Raises CheckpointError."""
        brought = BroughtBytes()
        for donor, files in moved.items():
            brought += self._store.fetch(self._location, self._manifests[donor], files, target, at_hand)
        return brought

    # --- and the directory ----------------------------------------------------------------------------------

    def bring(
        self, query: str, needs: QueryNeeds, taker: Taker, target: Path, at_hand: AtHand | None = None
    ) -> Assembled | None:
        """Put together a query's directory in `target`. None, and nothing is there, if it has to begin without any.

        at_hand: looked at for files of state only, which nobody changes in place.
        """
        assembled = Assembled()
        chosen = self.chosen(query, needs, taker)
        for donor, files in chosen.items():
            plain = [file for file in files if file.shard is None]
            shards = [file for file in files if file.shard is not None]
            of_state = sum(file.size_bytes for file in shards)
            where = self._location, self._manifests[donor]
            assembled += Assembled(
                moved_bytes=0 if donor == taker.node else of_state,
                kept_bytes=of_state if donor == taker.node else 0,
                fetched=self._store.fetch(*where, plain, target)
                + self._store.fetch(*where, shards, target, at_hand),
            )
        base = self.base(query, taker.node)
        if base is None:
            return None
        directory = target / query
        if needs.cut and self.held(base)[query].cut:
            self._write_record(query, base, taker, directory)
        if needs.sources:
            self._fit_sources(directory, needs.sources)
        # Spark stops a query that runs when another one with its id is started, and one may run where it was saved.
        _replace(directory / "metadata", json.dumps({"id": str(uuid.uuid4())}))
        return assembled

    def _write_record(self, query: str, base: int, taker: Taker, directory: Path) -> None:
        ids = {
            place: self.held(donor)[query].ids[place]
            for place, donor in self.donors(query, base, taker).items()
        }
        record = directory / "commits" / str(batch_of(directory, self.step))
        text = record_with_ids(record, ids)
        for operator, partitions in partition_counts(record).items():
            # Of one group there is one partition.
            if partitions not in (1, len(taker.owner)):
                raise CheckpointError(
                    f"the checkpoint of step {self.step} has {partitions} shards of query {query!r} and the pipeline has "
                    f"{len(taker.owner)}"
                )
            missing = [
                shard for shard in sorted(taker.shards) if shard < partitions and (operator, shard) not in ids
            ]
            if missing:
                raise CheckpointDamagedError(
                    f"the checkpoint of step {self.step} does not hold shards {missing} of operator {operator} of query "
                    f"{query!r} in the parts of the nodes that owned them; choose an older checkpoint"
                )
        _replace(record, text)

    def _fit_sources(self, directory: Path, sources: int) -> None:
        """A query whose rows are exchanged reads exchanges in place of inputs, and of those there may be more or fewer."""
        for _, plan in list(numbered(directory / "offsets")):
            if len(planned_ends(plan)) != sources:
                _replace(plan, with_sources(plan, step_of(plan), sources))


def _is_record(path: str, query: str) -> bool:
    """Of the batch of the part's step, which is the only one that a part has of a query."""
    folder, _, name = path.rpartition("/")
    return folder == f"{query}/commits" and name.isdecimal()


def _replace(path: Path, text: str) -> None:
    """Not written in place, for it may be a link; and a checksum would be of what it was."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink()
    path.write_text(text, encoding="utf-8")
