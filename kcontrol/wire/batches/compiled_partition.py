"""Kafka's default partitioner over a column of keys, compiled, which makes no array (`jit`). Follows
`org.apache.kafka.common.utils.Utils.murmur2`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from kcontrol.wire.batches.intrinsics import byte_at, load_u32
from kcontrol.wire.batches.jit import BYTES_IN, LONGS_IN, compiled


@compiled(types.void(LONGS_IN, BYTES_IN, BYTES_IN, types.int64, types.int32[::1]))
def partition(ends: Any, data: Any, valid: Any, partitions: int, out: Any) -> None:
    """Kafka's murmur2 partition of each key; -1 for null."""
    prime = np.uint32(0x5BD1E995)
    for row in range(len(out)):
        if len(valid) and valid[row] == 0:
            out[row] = -1
            continue
        at, end = ends[row], ends[row + 1]
        size = end - at
        whole = at + (size & ~3)
        code = np.uint32(0x9747B28C) ^ np.uint32(size)
        while at < whole:
            word = np.uint32(load_u32(data, at) * prime)
            word = np.uint32((word ^ (word >> np.uint32(24))) * prime)
            code = np.uint32(np.uint32(code * prime) ^ word)
            at += 4
        if at < end:
            word = np.uint32(0)
            for index in range(end - at):
                word |= np.uint32(byte_at(data, at + index)) << np.uint32(8 * index)
            code = np.uint32((code ^ word) * prime)
        code = np.uint32((code ^ (code >> np.uint32(13))) * prime)
        code ^= code >> np.uint32(15)
        out[row] = np.int32(np.int64(code & np.uint32(0x7FFFFFFF)) % partitions)
