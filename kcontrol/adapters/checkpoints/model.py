"""What a part of a checkpoint is: one node's saved state at one step, told by a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or str(PurePosixPath(path)) != path:
        raise ValueError(f"{path!r} is not a relative path")
    return path


RelativePath = Annotated[str, AfterValidator(_inside)]
NotNegative = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class PartPlace:
    """Whose part it is, and where it goes.

    location: URL or absolute path of the checkpoints' directory. log_id: Kafka's id of the pipeline's steps
    topic, so that a pipeline that was begun anew under the same name never finds its predecessor's
    checkpoints. incarnation: of the node's life.
    claim_epoch: of the coordinator that asked for it. step: the last one that the state holds.
    """

    location: str
    pipeline: str
    log_id: str
    node: int
    incarnation: int
    claim_epoch: int
    step: int


class ManifestShard(BaseModel):
    """A shard of a query's state that a part holds.

    operator: with state, by its number in the query. ids: of the version of each of its stores, as the record of the
    step's batch has them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str
    operator: NotNegative
    shard: NotNegative
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldShard:
    """A shard that is to be saved. paths: of its files, in the part."""

    shard: ManifestShard
    paths: frozenset[str]


@dataclass(frozen=True, slots=True)
class HeldShards:
    """What is to be said of shards in a manifest. cut: queries whose state is divided into shards. shards: those of them
    that the part holds."""

    cut: tuple[str, ...] = ()
    shards: tuple[HeldShard, ...] = ()


NO_SHARDS = HeldShards()


class ManifestFile(BaseModel):
    """One file of a part.

    path: in the part. stored: where its bytes are, from the life's directory; another part's, when that
    stored the same file before. size_bytes. sha256: 64 hexadecimal digits. shard: of the manifest's shards, counted from
    0, the one that the file is of; None: of none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: RelativePath
    stored: RelativePath
    size_bytes: NotNegative
    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    shard: NotNegative | None = None


class Manifest(BaseModel):
    """What a part holds. Written last: a part without one does not exist.

    cut: queries whose state is divided into shards; (): there are none, or it was saved by a kcontrol that did not say so.
    shards: those that the part holds, each of which can be brought to another node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    pipeline: str
    log_id: str
    node: NotNegative
    incarnation: NotNegative
    claim_epoch: NotNegative
    step: NotNegative
    files: tuple[ManifestFile, ...]
    cut: tuple[str, ...] = ()
    shards: tuple[ManifestShard, ...] = ()

    @model_validator(mode="after")
    def _what_is_named_is_told(self) -> Self:
        for shard in self.shards:
            if shard.query not in self.cut:
                raise ValueError(
                    f"there is a shard of query {shard.query!r}, which is not said to be divided"
                )
        for file in self.files:
            if file.shard is not None and file.shard >= len(self.shards):
                raise ValueError(
                    f"{file.path!r} is of shard {file.shard} of {len(self.shards)} that are told"
                )
        return self

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def shard_bytes(self) -> dict[int, int]:
        """By shard that it holds, over all queries and operators."""
        sizes = dict.fromkeys((each.shard for each in self.shards), 0)
        for file in self.files:
            if file.shard is not None:
                sizes[self.shards[file.shard].shard] += file.size_bytes
        return sizes

    def to_json(self) -> bytes:
        """Without shards it is as it was before there were any."""
        left_out = None if self.cut else {"cut", "shards"}
        return self.model_dump_json(exclude_none=True, exclude=left_out).encode()


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """A part that is whole in its place.

    manifest: its path from the location, as `restore`, `readable` and `drop` take it. files: how many.
    size_bytes: of all of them. copied_bytes: of those that no earlier part had stored. shard_bytes: by shard that it holds.
    """

    place: PartPlace
    manifest: str
    files: int
    size_bytes: int
    copied_bytes: int
    shard_bytes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that has a manifest, found by its path alone."""

    manifest: str
    node: int
    incarnation: int
    claim_epoch: int
    step: int


@dataclass(frozen=True, slots=True)
class BroughtBytes:
    """What bringing files here took. bytes: copied from the location. linked_bytes: of files that were on this machine."""

    bytes: int = 0
    linked_bytes: int = 0

    def __add__(self, other: BroughtBytes) -> BroughtBytes:
        return BroughtBytes(self.bytes + other.bytes, self.linked_bytes + other.linked_bytes)
