"""What takes a process's CPU time and memory, told of calls and objects that a test makes on purpose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kcontrol.adapters.profiling.python import Heap, ObjectKind, cpu_profile, folded, heap_profile, histogram
from tests.support.processes import until

SECONDS = 0.2


def spin_until(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(range(1_000))


@contextmanager
def thread(name: str, work: object) -> Iterator[None]:
    ended = threading.Event()
    running = threading.Thread(target=work, args=(ended,), name=name)
    running.start()
    try:
        yield
    finally:
        ended.set()
        running.join()


def test_a_busy_call_is_found_in_its_thread_and_a_waiting_one_is_not() -> None:
    seen: dict[str, int] = {}

    def look() -> bool:
        seen.update(cpu_profile(SECONDS))
        return any("spin_until" in stack for stack in seen)

    with thread("busy;one", spin_until), thread("idle", threading.Event.wait):
        until(look, "the busy call was seen")
    (found, *_) = [stack for stack in seen if "spin_until" in stack]
    thread_name, *calls = found.split(";")
    assert thread_name == "busy,one"
    assert calls[-1].startswith(f"spin_until ({__name__}:")
    assert seen[found] > 0
    assert not any(stack.startswith("idle") for stack in seen)


def test_stacks_are_told_the_dearest_first() -> None:
    assert folded({"a;b": 3, "a;c": 20, "d": 3}) == "a;c 20\na;b 3\nd 3\n"
    assert folded({}) == ""


class Kept:
    """Something that a test makes many of."""


def test_the_objects_of_the_heap_are_counted_by_type() -> None:
    kept = [Kept() for _ in range(5_000)]
    heap = heap_profile(max_objects=1_000_000_000)
    (found,) = (kind for kind in heap.kinds if kind.name == f"{__name__}.Kept")
    assert found.objects >= len(kept)
    assert found.bytes >= found.objects
    assert list(heap.kinds) == sorted(heap.kinds, key=lambda kind: (-kind.bytes, kind.name))
    assert "estimated" not in histogram(heap, lines=1)


def test_of_a_large_heap_a_part_is_looked_at_and_the_rest_estimated() -> None:
    kept = [Kept() for _ in range(20_000)]
    heap = heap_profile(max_objects=10_000)
    assert heap.every > 1
    looked_at = sum(kind.objects for kind in heap.kinds) / heap.every
    assert looked_at <= 10_000
    (found,) = (kind for kind in heap.kinds if kind.name == f"{__name__}.Kept")
    assert found.objects > len(kept) / 2
    assert f"estimated: one object in {heap.every} was looked at" in histogram(heap, lines=1)


def test_a_histogram_shows_the_largest_and_the_sums_of_all() -> None:
    kinds = (ObjectKind("m.Big", 2, 4_000), ObjectKind("m.Small", 3, 30))
    text = histogram(Heap(kinds), lines=1)
    assert "5, 4,030 bytes" in text
    assert "m.Big" in text
    assert "m.Small" not in text
    assert "resident memory" in text
