"""What a part of a checkpoint is: one node's saved state at one step, told by a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


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


class ManifestFile(BaseModel):
    """One file of a part.

    path: in the part. stored: where its bytes are, from the life's directory; another part's, when that
    stored the same file before. size_bytes. sha256: 64 hexadecimal digits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: RelativePath
    stored: RelativePath
    size_bytes: NotNegative
    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


class Manifest(BaseModel):
    """What a part holds. Written last: a part without one does not exist."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    pipeline: str
    log_id: str
    node: NotNegative
    incarnation: NotNegative
    claim_epoch: NotNegative
    step: NotNegative
    files: tuple[ManifestFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """A part that is whole in its place.

    manifest: its path from the location, as `restore`, `readable` and `drop` take it. files: how many.
    size_bytes: of all of them. copied_bytes: of those that no earlier part had stored.
    """

    place: PartPlace
    manifest: str
    files: int
    size_bytes: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that has a manifest, found by its path alone."""

    manifest: str
    node: int
    incarnation: int
    claim_epoch: int
    step: int
