"""Where parts of checkpoints are kept: a directory, S3 or HDFS, through pyarrow. Knows files,
and nothing of Spark or Kafka."""

from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.adapters.checkpoints.model import (
    BroughtBytes,
    HeldShard,
    HeldShards,
    Manifest,
    ManifestFile,
    ManifestShard,
    PartPlace,
    PartReceipt,
    StoredPart,
)
from kcontrol.adapters.checkpoints.store import CheckpointStore

__all__ = [
    "BroughtBytes",
    "CheckpointStore",
    "HeldShard",
    "HeldShards",
    "Manifest",
    "ManifestFile",
    "ManifestShard",
    "PartPlace",
    "PartReceipt",
    "StoreLimits",
    "StoredPart",
]
