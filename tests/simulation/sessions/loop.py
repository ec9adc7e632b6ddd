"""An event loop for which a seed is a schedule: time is virtual, and of what could run now
a generator chooses what does.

asyncio promises no order between tasks that are ready at once, only that of `call_soon` from one place; how
much of that order is kept is part of the schedule. Time stands still while anything can run, and then jumps
to the next timer.

Every callback belongs to the process in whose context it was made. One that was killed never runs again, not
even its `finally` blocks; one that is paused (SIGSTOP) runs later, while its clock goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

_MOST_CALLBACKS = 400_000
"""Without time passing, or it never will."""
_MOST_CANCELS = 50


class Process:
    """Who callbacks belong to. Everything that it starts inherits its context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.paused_until = 0.0
        """By the loop's time."""
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class _Handle:
    """A callback that waits, for its turn or for a time."""

    __slots__ = ("_cancelled", "_when", "args", "callback", "context", "process")

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Any, when: float
    ) -> None:
        self.callback, self.args = callback, args
        self.context = contextvars.copy_context() if context is None else context
        self.process: Process | None = self.context.get(PROCESS)
        self._when = when
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when


class _Task(asyncio.Task[Any]):
    """Sets of tasks are gone through in the same order in every run: a task's hash is its number."""

    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, **rest: Any) -> None:
        self.number = number
        super().__init__(coro, **rest)

    def __hash__(self) -> int:
        return self.number


class SeededLoop(asyncio.AbstractEventLoop):
    """shuffled: how likely it is that not the oldest of the ready callbacks runs next."""

    def __init__(self, random: Random, shuffled: float) -> None:
        self._random = random
        self._shuffled = shuffled
        self._now = 0.0
        self._ready: list[_Handle] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._timers_made = 0
        self._buried: list[_Handle] = []
        """What the killed would have done next."""
        self._failure: BaseException | None = None
        self.tasks: list[_Task] = []
        """All that were ever made: the coroutine of a process that was killed must not be closed by being
        forgotten."""

    def fail(self, failure: BaseException) -> None:
        """End the run with that, whoever catches it on the way."""
        self._failure = self._failure or failure

    def end(self) -> None:
        """Cancel every task until it has ended, also those of the killed: none is left
        to be closed by being forgotten."""
        self._failure = None
        for _ in range(_MOST_CANCELS):
            if not self._has_tasks():
                return
            self._ready += self._buried
            self._buried.clear()
            for task in self.tasks:
                task.cancel()
            self.run_while(self._has_tasks, self._now + 1.0)
        raise RuntimeError(f"these tasks do not end: {[task for task in self.tasks if not task.done()]}")

    def _has_tasks(self) -> bool:
        return any(not task.done() for task in self.tasks)

    def run_while(self, wanted: Callable[[], bool], until: float) -> None:
        """Run callbacks while `wanted` says so, and time is before `until`. Raises what `fail` was given."""
        asyncio._set_running_loop(self)
        try:
            while wanted() and self._turn(until):
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise failure
        finally:
            asyncio._set_running_loop(None)

    def _turn(self, until: float) -> bool:
        """One moment: all that can run now, then time goes on. False when there is nothing more before
        `until`."""
        draw, ready = self._random.random, self._ready
        callbacks = 0
        while ready and self._failure is None:
            index = int(draw() * len(ready)) if len(ready) > 1 and draw() < self._shuffled else 0
            self._run(ready.pop(index))
            callbacks += 1
            if callbacks > _MOST_CALLBACKS:
                raise RuntimeError("the processes do not come to rest")
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._failure is not None:
            return True
        if not self._timers or self._timers[0][0] >= until:
            self._now = max(self._now, until) if self._timers else self._now
            return False
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            ready.append(heapq.heappop(self._timers)[2])
        return True

    def _run(self, handle: _Handle) -> None:
        process = handle.process
        if handle.cancelled():
            return
        if process is not None and process.is_dead:
            self._buried.append(handle)
            return
        if process is not None and process.paused_until > self._now:
            self._push(process.paused_until, handle)
            return
        handle.context.run(handle.callback, *handle.args)

    def _push(self, when: float, handle: _Handle) -> None:
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, handle))

    # --- what asyncio asks of a loop ------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = _Handle(callback, args, context, self._now)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = _Handle(callback, args, context, when)
        self._push(when, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None) -> Any:
        task = _Task(coro, len(self.tasks) + 1, loop=self, name=name, context=context)
        self.tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Of a task whose end nobody has looked at."""
