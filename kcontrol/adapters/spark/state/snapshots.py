"""How long a query's state has gone without a snapshot.

Spark takes snapshots of a state store in the background, and none while queries are started again and again.
Each changelog begins with the versions since the last one, as one string of at most 65,535 bytes: beyond that
Spark can't write any, and every later step fails.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kcontrol.adapters.spark.state.batches import batch_of
from kcontrol.adapters.spark.state.formats import unique_ids
from kcontrol.adapters.spark.state.lineage import SHARED, STATE, StateVersion, lineage

MOST_CHANGES = 600
"""That a state store may build on without a snapshot. At 760 and more Spark's string is full."""


def changes_since_snapshot(query: Path, step: int) -> int:
    """Of the state store that builds on most, as it is after `step`: how many versions those are. 0 where there
    is no state, or nothing that tells."""
    try:
        batch = batch_of(query, step)
    except FileNotFoundError:
        return 0
    record = query / "commits" / str(batch)
    if not record.is_file():
        return 0
    most = 0
    for (operator, partition), ids in unique_ids(record).items():
        for folder, folders, names in os.walk(query / STATE / operator / partition):
            folders[:] = [name for name in folders if name not in SHARED]
            for unique_id in ids:
                with suppress(FileNotFoundError):  # Spark deletes what a snapshot has made superfluous
                    most = max(most, _changes(Path(folder), set(names), StateVersion(batch + 1, unique_id)))
    return most


def _changes(directory: Path, store: set[str], newest: StateVersion) -> int:
    if newest.changelog not in store or newest.snapshot in store:
        return 0
    line = (*(lineage(directory / newest.changelog) or ()), newest)
    base = max((each.version for each in line if each.snapshot in store), default=0)
    return sum(each.version > base for each in line)
