"""A whole part of a checkpoint, brought into a node's directory."""

from __future__ import annotations

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.spark.state.workdir import WorkDir


def restored_from(workdir: WorkDir, location: str, manifest: str) -> int:
    """Begin with the part. Its step."""
    store = CheckpointStore()
    step = store.manifest(location, manifest).step
    workdir.begin_with(step, lambda directory: store.restore(location, manifest, directory) and None)
    return step
