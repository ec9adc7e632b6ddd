"""Two instructions that numba has no words for. Neither checks bounds: the callers have.

After a change here, change `compiled.py` too (its docstring will do): numba's cache would not notice.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_memcpy: Any = cgutils.raw_memcpy


def _generate_load(_typing: Any, array: Any, _index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(array, types.int64), generate


load_u64: Any = intrinsic(_generate_load)
"""(array, index): eight bytes at any address as a little-endian number."""


def _generate_copy(_typing: Any, target: Any, _at: Any, source: Any, _start: Any, _count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        of = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        _memcpy(builder, builder.gep(to, [arguments[1]]), builder.gep(of, [arguments[3]]), arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


copy: Any = intrinsic(_generate_copy)
"""(target, at, source, start, count): memcpy of `count` bytes between two arrays that do not overlap."""
