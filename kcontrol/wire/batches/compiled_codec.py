"""The codec for production: see `kcontrol.wire.batches.compiled`. What that can't read goes to the reference
codec."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kcontrol.wire.batches.codec import BatchFormat, Decoded, OpenBatch, Payload
from kcontrol.wire.batches.columns import BytesColumn, Ints
from kcontrol.wire.batches.compiled_decode import decode_run
from kcontrol.wire.batches.compiled_encode import CompiledOpenBatch
from kcontrol.wire.batches.compiled_partition import partition
from kcontrol.wire.batches.reference_codec import ReferenceCodec
from kcontrol.wire.digest import DigestKind


class CompiledCodec:
    """See `Codec`."""

    name = "compiled"

    def __init__(self) -> None:
        self._reference = ReferenceCodec()

    def decode(
        self, run: Sequence[Payload], first: int, to: int, kind: DigestKind, where: str, *, headers: bool
    ) -> Decoded:
        decoded = decode_run(run, first, to, kind, headers=headers)
        return decoded or self._reference.decode(run, first, to, kind, where, headers=headers)

    def open_batch(self, batch_format: BatchFormat) -> OpenBatch:
        return CompiledOpenBatch(batch_format)

    def partition_of(self, keys: BytesColumn, rows: int, partitions: int) -> Ints:
        out: Ints = np.empty(rows, np.int32)
        partition(keys.ends, keys.data, keys.valid, partitions, out)
        return out

    def warm(self) -> None:
        """Importing this module has compiled everything: the functions have fixed signatures."""
