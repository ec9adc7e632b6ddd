"""Packing loses no row, adds none, sends each to its node, and keeps the order; digests do not see how rows were cut."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kcontrol.wire.chunk_digest import NO_ROWS, RowsDigest, added, by_node
from kcontrol.wire.chunks import COMPRESSIONS, pack, unpack

_SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("l", pa.list_(pa.struct([("d", pa.float64())]))),
    ]
)
_DOUBLES = st.one_of(st.none(), st.floats(allow_nan=False))
_ROWS = st.fixed_dictionaries(
    {
        "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "s": st.one_of(st.none(), st.text(max_size=30)),
        "b": st.one_of(st.none(), st.binary(max_size=300)),
        "l": st.one_of(
            st.none(), st.lists(st.one_of(st.none(), st.fixed_dictionaries({"d": _DOUBLES})), max_size=3)
        ),
    }
)
_LONGS = st.integers(-(2**63), 2**63 - 1)


@given(
    rows=st.lists(_ROWS, max_size=60),
    nodes=st.integers(1, 300),
    compression=st.sampled_from(COMPRESSIONS),
    max_bytes=st.sampled_from([1, 700, 2_000, 900_000]),
    data=st.data(),
)
def test_each_row_arrives_once_at_its_node_in_order(
    rows: list[dict[str, object]], nodes: int, compression: str, max_bytes: int, data: st.DataObject
) -> None:
    target = data.draw(st.lists(st.integers(0, nodes - 1), min_size=len(rows), max_size=len(rows)))
    batch = pa.RecordBatch.from_pylist(rows, _SCHEMA)
    chunks = list(pack(batch, np.array(target, np.int32), nodes, compression, max_bytes))
    found: dict[int, list[dict[str, object]]] = {}
    for chunk in chunks:
        arrived = [row for each in unpack(chunk.data, _SCHEMA, "here") for row in each.to_pylist()]
        assert len(arrived) == chunk.rows > 0
        assert chunk.data.size <= max_bytes or chunk.rows == 1
        found.setdefault(chunk.node, []).extend(arrived)
    wanted: dict[int, list[dict[str, object]]] = {}
    for row, node in zip(rows, target, strict=True):
        wanted.setdefault(node, []).append(row)
    assert found == wanted


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), _LONGS, _LONGS), max_size=50),
    cuts=st.lists(st.integers(0, 50), max_size=4),
    seed=st.randoms(use_true_random=False),
)
def test_digests_are_sums_that_do_not_see_order_or_cuts(
    rows: list[tuple[int, int, int]], cuts: list[int], seed: object
) -> None:
    def of(some: list[tuple[int, int, int]]) -> dict[int, RowsDigest]:
        columns = np.array(some, np.int64).reshape(-1, 3)
        return by_node(columns[:, 0].astype(np.int32), columns[:, 1], columns[:, 2])

    shuffled = list(rows)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    ends = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [of(shuffled[start:end]) for start, end in itertools.pairwise(ends)]
    whole = of(rows)
    for node in range(6):
        digest = added(part[node] for part in parts if node in part)
        assert digest == whole.get(node, NO_ROWS)
        mine = [(first, second) for each, first, second in rows if each == node]
        sums = [sum(hashes) % 2**64 for hashes in zip(*mine, strict=True)] or [0, 0]
        assert (digest.rows, digest.hex) == (len(mine), "".join(f"{total:016x}" for total in sums))
        assert RowsDigest.parsed(digest.rows, digest.hex) == digest
