"""The codec for production: see `kcontrol.wire.batches.compiled`. What that can't read goes to the reference
codec."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kcontrol.wire.batches.codec import BatchFormat, Decoded, OpenBatch, Run
from kcontrol.wire.batches.columns import BytesColumn, Ints
from kcontrol.wire.batches.compiled_decode import decode_runs
from kcontrol.wire.batches.compiled_encode import CompiledOpenBatch
from kcontrol.wire.batches.compiled_partition import partition
from kcontrol.wire.batches.reference_codec import ReferenceCodec
from kcontrol.wire.digest import DigestKind


class CompiledCodec:
    """See `Codec`."""

    name = "compiled"

    def __init__(self) -> None:
        self._reference = ReferenceCodec()

    def decode(self, runs: Sequence[Run], kind: DigestKind, *, headers: bool) -> Decoded:
        decoded = decode_runs(runs, kind, headers=headers)
        if decoded is not None:
            return decoded
        if len(runs) == 1:
            return self._reference.decode(runs, kind, headers=headers)
        # It may be one of many that is odd.
        alone = [self.decode([run], kind, headers=headers) for run in runs]
        digests = [digest for each in alone for digest in each.digests]
        return Decoded(pa.concat_batches([each.rows for each in alone]), digests)

    def open_batch(self, batch_format: BatchFormat) -> OpenBatch:
        return CompiledOpenBatch(batch_format)

    def partition_of(self, keys: BytesColumn, rows: int, partitions: int) -> Ints:
        out: Ints = np.empty(rows, np.int32)
        partition(keys.ends, keys.data, keys.valid, partitions, out)
        return out

    def warm(self) -> None:
        """Importing this module has compiled everything: the functions have fixed signatures."""
