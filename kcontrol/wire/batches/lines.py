"""The digest of many lines of a file at once, by the compiled loop where there is one."""

from __future__ import annotations

import numpy as np

from kcontrol.wire.batches.codec import default_codec
from kcontrol.wire.batches.columns import Bytes, Longs
from kcontrol.wire.digest import EMPTY, Digest, DigestKind, line_digest


def digest_of_lines(data: Bytes, starts: Longs, ends: Longs, base: int) -> Digest:
    """Of data[starts[r]:ends[r]]. base: the offset of data[0]. The sum of `line_digest` of each."""
    if default_codec().name != "compiled":
        lines = zip(starts.tolist(), ends.tolist(), strict=True)
        return sum((line_digest(base + start, data[start:end].tobytes()) for start, end in lines), EMPTY)
    from kcontrol.wire.batches import compiled

    words = np.zeros(2, np.uint64)
    compiled.digest_lines(data, starts, ends, base, np.uint64(DigestKind.LINE), words)
    return Digest(len(starts), int(words[1]) << 64 | int(words[0]))
