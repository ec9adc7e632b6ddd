"""The Python part of a process: which calls take its CPU time, and what its heap holds. By
the standard library and psutil.

CPU time is what the kernel says that a thread has used since the sample before, and goes to the call that the
thread is in. Threads that only wait cost nothing and so are not shown.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType

import psutil

SAMPLES_PER_S = 100
MAX_DEPTH = 128
"""Calls of a stack that are shown; those above are left out."""

MAX_OBJECTS = 2_000_000
"""Of a heap that are looked at: about two seconds. Of a larger one every second, third, ... object is."""

_NOT_PYTHON = "(not Python)"


def cpu_profile(seconds: float, per_second: int = SAMPLES_PER_S) -> dict[str, int]:
    """CPU time of this process in so many seconds, in milliseconds, by stack:
    `thread;call;call;...`, outermost call first.

    Blocks; run it in a thread of its own, which is left out.
    """
    process, own = psutil.Process(), threading.get_native_id()
    found: Counter[str] = Counter()
    before, deadline = _used_s(process), time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, 1 / per_second))
        frames, names = sys._current_frames(), _names()
        now = _used_s(process)
        for native_id, used in now.items():
            spent_ms = round((used - before.get(native_id, 0.0)) * 1000)
            if spent_ms > 0 and native_id != own:
                ident, name = names.get(native_id, (None, f"thread {native_id}"))
                found[_stack(name, frames.get(ident) if ident is not None else None)] += spent_ms
        before = now
    return dict(found)


def folded(profile: Mapping[str, int]) -> str:
    """A line for each stack and its milliseconds, the most expensive first: what flame graphs are drawn
    from."""
    lines = sorted(profile.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{stack} {spent}\n" for stack, spent in lines)


def _used_s(process: psutil.Process) -> dict[int, float]:
    """By native thread id, in seconds."""
    return {each.id: each.user_time + each.system_time for each in process.threads()}


def _names() -> dict[int, tuple[int | None, str]]:
    """By native thread id: the thread's identity in Python, and its name."""
    return {
        each.native_id: (each.ident, each.name)
        for each in threading.enumerate()
        if each.native_id is not None
    }


def _stack(thread: str, frame: FrameType | None) -> str:
    if frame is None:
        return f"{_plain(thread)};{_NOT_PYTHON}"
    calls: list[str] = []
    while frame is not None and len(calls) < MAX_DEPTH:
        code = frame.f_code
        calls.append(f"{code.co_qualname} ({_module(frame)}:{frame.f_lineno})")
        frame = frame.f_back
    return ";".join((_plain(thread), *map(_plain, reversed(calls))))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))


def _plain(text: str) -> str:
    """`;` parts calls, and a line break lines."""
    return text.replace(";", ",").replace("\n", " ")


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """Objects of one type. bytes: of the objects themselves, without what they refer to."""

    name: str
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Heap:
    """What the garbage collector knows of, by type, the largest first. Numbers, strings and bytes are not
    among it. every: one in so many objects was looked at, and the counts and bytes are multiplied by it.
    """

    kinds: tuple[ObjectKind, ...]
    every: int = 1


def heap_profile(max_objects: int = MAX_OBJECTS) -> Heap:
    """Looks at no more than `max_objects`: about a second for a million, in which other threads go on."""
    objects: Counter[type] = Counter()
    sizes: Counter[type] = Counter()
    known = gc.get_objects()
    every = -(-len(known) // max_objects)
    for each in known[::every]:
        kind = type(each)
        objects[kind] += 1
        # A type may have a size of its own that fails; only its objects then go without.
        sizes[kind] += sys.getsizeof(each, 0)
    found = [
        ObjectKind(f"{kind.__module__}.{kind.__qualname__}", count * every, sizes[kind] * every)
        for kind, count in objects.items()
    ]
    return Heap(tuple(sorted(found, key=lambda kind: (-kind.bytes, kind.name))), every)


def histogram(heap: Heap, lines: int) -> str:
    """The largest kinds as a table, with the process's memory above it."""
    memory = psutil.Process().memory_info()
    head = (
        f"resident memory of the process: {memory.rss:,} bytes\n"
        f"objects that the garbage collector knows: {sum(kind.objects for kind in heap.kinds):,}, "
        f"{sum(kind.bytes for kind in heap.kinds):,} bytes without what they refer to\n"
    )
    if heap.every > 1:
        head += f"estimated: one object in {heap.every} was looked at\n"
    rows = "".join(f"{kind.bytes:>16,} {kind.objects:>12,}  {kind.name}\n" for kind in heap.kinds[:lines])
    return f"{head}\n{'bytes':>16} {'objects':>12}  type\n{rows}"
