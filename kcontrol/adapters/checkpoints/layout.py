"""Where things are under a location. Everything of one life of one node is in one directory,
which only that life writes into:

PIPELINE/LOG_ID/node-N/inc-INC/manifests/step-S.epoch-E.json     a part: written last, by one atomic write
PIPELINE/LOG_ID/node-N/inc-INC/data/step-S.epoch-E.RANDOM/...    what one save has copied; no name is ever
used twice PIPELINE/LOG_ID/node-N/inc-INC/saving/step-S.epoch-E.RANDOM      there while that save is under
way: nothing may be swept
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from kcontrol.adapters.checkpoints.model import PartPlace, StoredPart
from kcontrol.errors import CheckpointError, ConfigurationError

_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]+\Z")
_LIFE = re.compile(r"inc-([0-9]+)\Z")
_MANIFEST_NAME = re.compile(r"step-([0-9]+)\.epoch-([0-9]+)\.json\Z")
_MANIFEST = re.compile(r"([^/]+)/([^/]+)/node-([0-9]+)/inc-([0-9]+)/manifests/([^/]+)\Z")


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """Where all lives of one node are."""

    pipeline: str
    log_id: str
    node: int

    def __post_init__(self) -> None:
        """Raises ConfigurationError: the names can't be parts of a path."""
        for what, name in (("pipeline", self.pipeline), ("log id", self.log_id)):
            if not _NAME.match(name):
                raise ConfigurationError(
                    f"{what} {name!r} can't be a directory's name: only letters, digits, '.', '_' and '-'"
                )

    @property
    def path(self) -> str:
        return f"{self.pipeline}/{self.log_id}/node-{self.node}"


@dataclass(frozen=True, slots=True)
class LifeFolder:
    """Where everything of one life of a node is."""

    node: NodeFolder
    incarnation: int

    @property
    def path(self) -> str:
        return f"{self.node.path}/inc-{self.incarnation}"

    @property
    def manifests(self) -> str:
        return f"{self.path}/manifests"

    @property
    def data(self) -> str:
        return f"{self.path}/data"

    @property
    def saving(self) -> str:
        return f"{self.path}/saving"

    def manifest(self, step: int, claim_epoch: int) -> str:
        return f"{self.manifests}/step-{step}.epoch-{claim_epoch}.json"

    def part(self, name: str) -> StoredPart | None:
        """The part that a file in `manifests` tells of; None for any other file."""
        match = _MANIFEST_NAME.match(name)
        if match is None:
            return None
        step, claim_epoch = int(match[1]), int(match[2])
        return StoredPart(
            self.manifest(step, claim_epoch), self.node.node, self.incarnation, claim_epoch, step
        )


def life_of(place: PartPlace) -> LifeFolder:
    return LifeFolder(NodeFolder(place.pipeline, place.log_id, place.node), place.incarnation)


def save_name(place: PartPlace) -> str:
    """A new name for each save."""
    return f"step-{place.step}.epoch-{place.claim_epoch}.{secrets.token_hex(8)}"


def incarnation_of(name: str) -> int | None:
    """The life that a directory of a node's folder is of; None for any other."""
    match = _LIFE.match(name)
    return None if match is None else int(match[1])


def parse_manifest(manifest: str) -> tuple[LifeFolder, StoredPart]:
    """Whose part a manifest's path tells of. Raises CheckpointError."""
    match = _MANIFEST.match(manifest)
    if match is not None and _NAME.match(match[1]) and _NAME.match(match[2]):
        life = LifeFolder(NodeFolder(match[1], match[2], int(match[3])), int(match[4]))
        part = life.part(match[5])
        if part is not None and part.manifest == manifest:
            return life, part
    raise CheckpointError(
        f"{manifest!r} is not the path of a part's manifest: "
        "PIPELINE/LOG_ID/node-N/inc-INC/manifests/step-S.epoch-E.json"
    )
