"""Instructions that numba has no words for. None checks bounds: the callers have.

After a change here, change `compiled.py` too (its docstring will do): numba's cache would not notice.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_memcpy: Any = cgutils.raw_memcpy
_builders: Any = cgutils


def _generate_load(_typing: Any, array: Any, _index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(array, types.int64), generate


load_u64: Any = intrinsic(_generate_load)
"""(array, index): eight bytes at any address as a little-endian number."""


def _generate_load_half(_typing: Any, array: Any, _index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(32).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint32(array, types.int64), generate


load_u32: Any = intrinsic(_generate_load_half)
"""(array, index): four bytes at any address as a little-endian number."""


def _generate_zeros(_typing: Any, _number: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


low_zeros: Any = intrinsic(_generate_zeros)
"""(number): how many of its lowest bits are 0; the number is not 0."""


def _generate_copy(_typing: Any, target: Any, _at: Any, source: Any, _start: Any, _count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        of = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        _memcpy(builder, builder.gep(to, [arguments[1]]), builder.gep(of, [arguments[3]]), arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


copy: Any = intrinsic(_generate_copy)
"""(target, at, source, start, count): memcpy of `count` bytes between two arrays that do not overlap."""


def _generate_byte(_typing: Any, array: Any, _index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return types.uint8(array, types.int64), generate


byte_at: Any = intrinsic(_generate_byte)
"""(array, index): one byte. `array[index]` looks first whether the index is counted from the end."""


def _generate_find(_typing: Any, array: Any, _at: Any, _end: Any, _byte: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        _, at, end, byte = arguments
        pointer, number, size = data.type, ir.IntType(32), ir.IntType(64)
        memchr = _builders.get_or_insert_function(
            builder.module, ir.FunctionType(pointer, [pointer, number, size]), "memchr"
        )
        found = builder.call(
            memchr, [builder.gep(data, [at]), builder.trunc(byte, number), builder.sub(end, at)]
        )
        place = builder.sub(builder.ptrtoint(found, size), builder.ptrtoint(data, size))
        is_none = builder.icmp_unsigned("==", found, _builders.get_null_value(pointer))
        return builder.select(is_none, end, place)

    return types.int64(array, types.int64, types.int64, types.int64), generate


find: Any = intrinsic(_generate_find)
"""(array, at, end, byte): where that byte is first in array[at:end], as memchr finds it; `end` if it is nowhere."""
