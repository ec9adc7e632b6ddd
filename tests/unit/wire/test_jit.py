"""How the compiled loops are compiled."""

from __future__ import annotations

import sys
from typing import Any, cast

import numba
import numpy as np
import pytest
from numba import types
from numba.core.errors import NumbaError

from kcontrol.wire.batches import (
    compiled,
    compiled_flat,
    compiled_hash,
    compiled_json,
    compiled_lines,
    compiled_partition,
    jit,
)

MODULES = (compiled, compiled_flat, compiled_hash, compiled_json, compiled_lines, compiled_partition)


def loops() -> list[Any]:
    """All that are compiled, or are parts of what is."""
    return [
        each
        for module in MODULES
        for each in vars(module).values()
        if hasattr(each, "py_func") and each.__module__ == module.__name__
    ]


@pytest.mark.parametrize("loop", loops(), ids=lambda loop: str(loop.__name__))
def test_no_loop_counts_references_to_arrays(loop: Any) -> None:
    assert loop.targetoptions["_nrt"] is False


def test_nothing_of_numbas_counting_is_in_the_code_of_a_loop_that_calls_others_with_arrays() -> None:
    loop = cast(Any, compiled.digest_lines)
    (signature,) = loop.signatures
    again = cast(Any, numba).njit(nogil=True, **jit.UNCOUNTED)(loop.py_func)
    again.compile(signature)
    assert "NRT_" not in again.inspect_llvm(signature)


def test_a_call_keeps_no_array() -> None:
    data = np.frombuffer(b"a\n" * 100, np.uint8)
    starts, ends = np.empty(100, np.int64), np.empty(100, np.int64)
    before = [sys.getrefcount(each) for each in (data, starts, ends)]
    for _ in range(10):
        assert compiled_lines.lines(data, starts, ends) == 100
    assert [sys.getrefcount(each) for each in (data, starts, ends)] == before


def test_a_loop_that_makes_an_array_is_refused() -> None:
    def makes(size: int) -> int:
        return len(np.empty(size, np.int64))

    with pytest.raises(NumbaError, match="Only accept returning of array passed into the function"):
        jit.compiled(types.int64(types.int64))(makes)
