"""The state of a query of which each node ran only its own partitions, brought together as if one node had run all.

Spark's state data source wants every partition in a directory, and its ids in the record of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcontrol.adapters.spark.state.formats import merged_record
from kcontrol.adapters.spark.state.lineage import STATE


def gathered(places: Mapping[int, Path], batch: int) -> Mapping[int, int]:
    """Move all partitions into the directory of the node with the lowest number. places: by node, the query's directory, of
    which this makes what it likes.

    Returns the node that ran each partition; nothing, and moves nothing, where every node ran all of them.
    """
    records = {node: place / "commits" / str(batch) for node, place in places.items()}
    text, nodes = merged_record(records)
    if not nodes:
        return {}
    first = min(places)
    for partition, node in nodes.items():
        if node != first:
            for found in sorted((places[node] / STATE).glob(f"*/{partition}")):
                found.rename(places[first] / found.relative_to(places[node]))
    record = records[first]
    # Not written in place, for it may be a link; and a checksum would be of what it was.
    record.with_name(f".{record.name}.crc").unlink(missing_ok=True)
    record.unlink()
    record.write_text(text, encoding="utf-8")
    return nodes
