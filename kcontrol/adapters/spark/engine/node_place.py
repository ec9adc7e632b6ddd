"""Who an engine works for, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcontrol.core.model import Environment


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Which node of the pipeline this is, and where its directories are."""

    node: int
    work_root: Path
    log_id: str = ""
    """Kafka's id of the steps topic. Only an engine that saves checkpoints needs it."""
    checkpoints: Path | None = None
    """Where the node's own checkpoints are, if they are not put elsewhere."""
    environment: Environment | None = None
    """What it computes with, to be named where a replay differs; None: not known."""


def has_worked(work_dir: Path, pipeline: str, node: int) -> bool:
    """Whether this node has a directory of some life, of whatever log, so that it keeps state, or did."""
    return any(work_dir.glob(f"*/{pipeline}/node-{node}"))
