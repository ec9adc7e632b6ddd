"""Which partition a row goes to: its own, its key's, its value's; never one that the writer may not write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kcontrol.adapters.spark.channel.targets import OutputTarget, place, split_by_output
from kcontrol.errors import ConfigurationError
from kcontrol.wire.murmur2 import partition_of

OUT = OutputTarget("out", "topic", 6, tuple(range(6)), "exact")
MORE = OutputTarget("more", "topic-2", 6, tuple(range(6)), "exact")
VALUES = [f"value-{number}".encode() for number in range(50)]


def rows(**columns: list[object]) -> pa.RecordBatch:
    types = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "output": pa.string()}
    return pa.RecordBatch.from_arrays(
        [pa.array(column, types[name]) for name, column in columns.items()], names=list(columns)
    )


def test_keyed_rows_go_where_kafkas_clients_send_them() -> None:
    keys = [b"a", b"bc", b"", b"defgh"]
    batch = rows(key=keys, value=[b""] * 4)
    assert place(batch, OUT, OUT.own).to_pylist() == [partition_of(key, 6) for key in keys]


def test_rows_without_a_key_are_spread_over_what_the_writer_owns_by_value_alone() -> None:
    own = (1, 4, 5)
    placed = place(rows(value=VALUES), OUT, own).to_pylist()
    assert set(placed) == set(own)
    again = place(rows(value=VALUES[::-1]), OUT, own).to_pylist()
    assert again == placed[::-1]
    assert place(rows(key=[None] * 50, value=VALUES), OUT, own).to_pylist() == placed


def test_a_row_without_anything_goes_to_the_first() -> None:
    assert place(rows(value=[None]), OUT, (2, 3)).to_pylist() == [2]


def test_a_rows_own_partition_wins() -> None:
    batch = rows(key=[b"a", b"a"], value=[b"x", b"x"], partition=[3, None])
    assert place(batch, OUT, OUT.own).to_pylist() == [3, partition_of(b"a", 6)]


@pytest.mark.parametrize("partition", [2, 6, -1])
def test_a_row_for_a_partition_of_somebody_else_is_refused(partition: int) -> None:
    with pytest.raises(ConfigurationError, match=f"a row belongs to partition {partition} of topic 'topic'"):
        place(rows(value=[b"x"], partition=[partition]), OUT, (0, 1))


def test_rows_find_their_output_and_unknown_names_are_told() -> None:
    batch = rows(value=[b"1", b"2", b"3"], output=["more", "out", "more"])
    found = {
        target.name: part.column("value").to_pylist()
        for target, _, part in split_by_output(batch, (OUT, MORE))
    }
    assert found == {"out": [b"2"], "more": [b"1", b"3"]}
    for wrong in ("other", None):
        with pytest.raises(ConfigurationError, match="must be one of out, more"):
            list(split_by_output(rows(value=[b"1", b"2"], output=["out", wrong]), (OUT, MORE)))
