"""Which batch of a query is which step: as Spark's own plans say.

Spark counts batches without a gap; steps are counted on where others were made void. So a query's first batch is step 1, and
stays one behind until the pipeline is reset: the batches of void steps are taken back, and the next one has a step that is
further ahead. Whoever looks for a step's batch looks for the one that was planned to end there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from kcontrol.adapters.spark.state.formats import planned_ends


def batch_of(query: Path, step: int) -> int:
    """The batch in a query's directory that was planned to end at a step.

    Raises FileNotFoundError: there is none; ConfigurationError: its plan is of a version that is not known.
    """
    usual = query / "offsets" / str(step - 1)
    if usual.is_file() and step_of(usual) == step:
        return step - 1
    for batch, plan in sorted(numbered(query / "offsets"), reverse=True):
        if step_of(plan) == step:
            return batch
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(usual))


def step_of(plan: Path) -> int:
    """Where a batch ends. Raises as `planned_ends`."""
    return max(planned_ends(plan), default=int(plan.name) + 1)


def numbered(log: Path) -> Iterator[tuple[int, Path]]:
    """The batches in one of Spark's logs."""
    if log.is_dir():
        yield from ((int(path.name), path) for path in log.iterdir() if path.name.isdecimal())
