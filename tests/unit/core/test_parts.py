"""Each field of the coordinator's state has one owner: a part's own methods, the turn, or the fold of a
log."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from pathlib import Path

import pytest

from kcontrol.core.coordinator import parts
from kcontrol.core.coordinator.state import CoordinatorState

_COORDINATOR = Path(parts.__file__).parents[1]
_OWNERS = {
    **dict.fromkeys(("at", "now_ms", "wall_ahead_ms", "wake_ms"), "turn.py"),
    **dict.fromkeys(("view", "steps"), "decide.py"),
}
"""Of the fields that are no parts."""
STATE = CoordinatorState.initial("p", transactional_id="t", steps_topic="s")
PARTS = {
    name: value for name, value in vars(STATE).items() if type(value).__module__.startswith(parts.__name__)
}


def assignments(source: str) -> Iterator[tuple[str, ast.expr]]:
    """What is assigned to a field of a state, by its name: `state.x`, `turn.state.x`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for one, value in _pairs(target, node.value):
                    if isinstance(one, ast.Attribute) and ast.unparse(one.value).split(".")[-1] == "state":
                        yield one.attr, value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple):
        yield from zip(
            target.elts,
            value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts),
            strict=True,
        )
    else:
        yield target, value


def is_made_by_the_part(name: str, value: ast.expr) -> bool:
    """Whether it is what a method of the part gives back, the part in a variable, or the part as it
    begins."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return ast.unparse(value.func.value).split(".")[-1] == name
    return ast.unparse(value) in (f"{type(PARTS[name]).__name__}()", "NO_STOP", name)


def test_every_field_is_a_part_or_has_an_owner() -> None:
    named = {"pipeline", "transactional_id", "steps_topic"}
    assert {one.name for one in fields(CoordinatorState)} == named | set(_OWNERS) | set(PARTS)


def test_nobody_changes_a_field_but_its_owner() -> None:
    offenders = []
    for path in sorted(_COORDINATOR.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        for name, value in assignments(source):
            owned = (
                path.name == _OWNERS[name]
                if name in _OWNERS
                else name in PARTS and is_made_by_the_part(name, value)
            )
            if not owned:
                offenders.append(f"{path.name}: {name} = {ast.unparse(value)}")
    assert offenders == []


def test_an_assignment_beside_the_owner_is_found() -> None:
    [(name, value)] = assignments("turn.state.trouble = replace(state.trouble, halt='x')")
    assert name == "trouble"
    assert not is_made_by_the_part(name, value)
    assert [name for name, _ in assignments("state.at, state.nodes = State.READY, state.nodes.whole()")] == [
        "at",
        "nodes",
    ]


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_frozen(name: str) -> None:
    part = PARTS[name]
    assert is_dataclass(part)
    with pytest.raises(FrozenInstanceError):
        setattr(part, fields(part)[0].name, None)
