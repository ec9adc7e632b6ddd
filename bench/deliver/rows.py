"""The rows that come into the table, by their numbers, and what a table must hold of them.

Of 8 rows that follow each other 6 have keys of their own, and 2 the keys of rows of a step before, as upserts do. So the last
transaction that has written a row is told by the table for each step: not all rows of a step are written again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from bench.deliver.columns import UPSERT
from bench.topics import fill

Numbers = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]
_TOGETHER, _NEW = 8, 6
_NOTE = "x" * 40


def key_of(number: int, step_rows: int) -> int:
    """Of a row. step_rows: of each step, a multiple of 8."""
    is_new = number < step_rows or number % _TOGETHER < _NEW
    return number if is_new else number - _NEW - step_rows


def record_of(number: int, step_rows: int) -> tuple[bytes, bytes]:
    """Its key, by which equal keys come into one partition, and its JSON, about 110 bytes."""
    key = key_of(number, step_rows)
    value = b'{"id":%d,"number":%d,"customer":"user-%04d","amount":%.2f,"note":"%s"}' % (
        key,
        number,
        number % 10_000,
        number % 1_000 / 4,
        _NOTE.encode(),
    )
    return b"%d" % key, value


def write(bootstrap_servers: str, topic: str, first: int, rows: int, partitions: int, step_rows: int) -> None:
    """Append rows to a topic. Raises KafkaException."""
    make: Callable[[int], tuple[bytes, bytes]] = partial(record_of, step_rows=step_rows)
    fill(bootstrap_servers, topic, rows, partitions, first, by_key=True, record_of=make)


def check(mode: str, rows: int, step_rows: int, ids: Numbers, numbers: Numbers, amounts: Amounts) -> None:
    """Raises RuntimeError: a table with these columns does not hold each of the first `rows` rows once; or, for upserts, the
    newest row of each key."""
    wanted_numbers = np.arange(rows, dtype=np.int64)
    is_new = (wanted_numbers < step_rows) | (wanted_numbers % _TOGETHER < _NEW)
    wanted_ids = np.where(is_new, wanted_numbers, wanted_numbers - _NEW - step_rows)
    if mode == UPSERT:
        # The first of each key of those in reverse is its newest.
        wanted_ids, places = np.unique(wanted_ids[::-1], return_index=True)
        wanted_numbers = wanted_numbers[::-1][places]
    order = np.argsort(numbers)
    ids, numbers, amounts = ids[order], numbers[order], amounts[order]
    order = np.argsort(wanted_numbers)
    wanted_ids, wanted_numbers = wanted_ids[order], wanted_numbers[order]
    if not np.array_equal(numbers, wanted_numbers):
        missing = len(np.setdiff1d(wanted_numbers, numbers))
        raise RuntimeError(
            f"the table should hold {len(wanted_numbers):,} rows and holds {len(numbers):,}, of which "
            f"{len(numbers) - len(np.unique(numbers)):,} are there again; {missing:,} are missing"
        )
    wrong = int(((ids != wanted_ids) | (amounts != numbers % 1_000 / 4)).sum())
    if wrong:
        raise RuntimeError(f"{wrong:,} rows of the table have another key or amount than was sent")
