"""The search: breadth first, so that what is found is found on a shortest way."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from tests.simulation.cluster.exhaustive.keys import Keys
from tests.simulation.cluster.exhaustive.log import Log
from tests.simulation.cluster.exhaustive.moves import Bounds, Move, Moves
from tests.simulation.cluster.exhaustive.rest import not_as_it_should_be
from tests.simulation.cluster.exhaustive.state import State
from tests.simulation.cluster.invariants import COMES_TO_REST
from tests.simulation.invariants import Violation, require

NOWHERE = -1
CALM_LIMIT = 10_000


@dataclass(frozen=True)
class Found:
    """What was broken, and a shortest way there."""

    name: str
    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{at:3}. {line}" for at, line in enumerate(self.trace, 1)]
        return "\n".join((*lines, f"  => {self.name}: {self.what}"))


@dataclass
class Result:
    """complete: whether every state was seen that can be reached. deepest: the longest of the shortest ways."""

    states: int = 0
    moves: int = 0
    deepest: int = 0
    checked: int = 0
    rests: int = 0
    complete: bool = False
    seconds: float = 0.0
    found: Found | None = None

    def __str__(self) -> str:
        how = "all that can be reached" if self.complete else "NOT all: the search was ended"
        return (
            f"{self.states} states ({how}), {self.moves} moves, depth {self.deepest}, {self.rests} at rest, "
            f"{self.checked} entries checked on values, {self.seconds:.1f} s"
        )


@dataclass
class Search:
    """Of one world. most: states after which it is given up."""

    first: State
    bounds: Bounds
    most: int
    result: Result = field(default_factory=Result)

    def __post_init__(self) -> None:
        self._keys = Keys()
        self._log = Log(self._keys)
        self._moves = Moves(self._log, self.bounds)
        self._ids: dict[bytes, int] = {}
        self._parents: list[int] = []
        self._lines: list[str] = []
        self._calm: list[int] = []
        """By state, the one that follows in a calm run; NOWHERE at its end, and where it was not looked."""
        self._depths: list[int] = []

    def run(self) -> Result:
        began, result = time.monotonic(), self.result
        queue: deque[tuple[int, State]] = deque()
        queue.append((self._add(self.first, NOWHERE, ""), self.first))
        while queue and len(self._ids) < self.most:
            here, state = queue.popleft()
            try:
                moves = list(self._moves.of(state))
                for move in moves:
                    to = self._id(move, here)
                    if to == len(self._ids) - 1 and self._is_new:
                        queue.append((to, move.to))
                self._follow(here, state, moves)
            except Violation as violation:
                what = str(violation).removeprefix(f"{violation.name}: ")
                result.found = Found(violation.name, what, (*self._trace(here), self._moves.doing))
                break
        result.complete = not queue and result.found is None
        result.states, result.checked = len(self._ids), self._log.checked
        if result.complete:
            result.found = self._never_at_rest()
        result.seconds = time.monotonic() - began
        return result

    def _id(self, move: Move, parent: int) -> int:
        self.result.moves += 1
        key = self._keys.key(move.to)
        known = self._ids.get(key)
        self._is_new = known is None
        return self._add(move.to, parent, move.line, key) if known is None else known

    def _add(self, state: State, parent: int, line: str, key: bytes = b"") -> int:
        name = len(self._parents)
        self._ids[key or self._keys.key(state)] = name
        self._parents.append(parent)
        self._lines.append(line)
        self._calm.append(NOWHERE)
        self._depths.append(0 if parent == NOWHERE else self._depths[parent] + 1)
        self.result.deepest = max(self.result.deepest, self._depths[-1])
        return name

    def _follow(self, here: int, state: State, moves: list[Move]) -> None:
        calm = min(
            (one for one in moves if one.rank is not None), key=lambda one: one.rank or 0, default=None
        )
        if calm is not None:
            self._calm[here] = self._ids[self._keys.key(calm.to)]
            return
        self.result.rests += 1
        self._moves.doing = "nothing is left that happens by itself"
        why = not_as_it_should_be(state)
        require(why is None, COMES_TO_REST, why)

    def _trace(self, name: int) -> tuple[str, ...]:
        lines: list[str] = []
        while self._parents[name] != NOWHERE:
            lines.append(self._lines[name])
            name = self._parents[name]
        return tuple(reversed(lines))

    def _never_at_rest(self) -> Found | None:
        """A state from which a calm run goes round in a circle."""
        rests = [one == NOWHERE for one in self._calm]
        for name in range(len(rests)):
            way: list[int] = []
            at = name
            while not rests[at]:
                if at in way:
                    around = (*(self._lines[one] for one in way[way.index(at) :]),)
                    return Found(COMES_TO_REST, f"it goes round: {around}", self._trace(name))
                way.append(at)
                at = self._calm[at]
            for one in way:
                rests[one] = True
        return None


def calm_run(state: State) -> State:
    """What comes of it by itself."""
    moves = Moves(Log(Keys()), Bounds())
    for _ in range(CALM_LIMIT):
        calm = [one for one in moves.of(state) if one.rank is not None]
        if not calm:
            require(not_as_it_should_be(state) is None, COMES_TO_REST, not_as_it_should_be(state))
            return state
        state = min(calm, key=lambda one: one.rank or 0).to
    raise Violation(COMES_TO_REST, f"not in {CALM_LIMIT} moves")
