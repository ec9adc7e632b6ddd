"""How the compiled loops are compiled."""

from __future__ import annotations

from typing import Any, cast

import numba
import pytest

from kcontrol.wire.batches import compiled, compiled_flat, compiled_json, compiled_lines, compiled_partition

MODULES = (compiled, compiled_flat, compiled_json, compiled_lines, compiled_partition)


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
    again = numba.njit(nogil=True, **{"_nrt": loop.targetoptions["_nrt"]})(loop.py_func)
    again.compile(signature)
    assert "NRT_" not in again.inspect_llvm(signature)
