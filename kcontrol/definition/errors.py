"""Turns what pydantic finds wrong in a user's definition into one clear ConfigurationError.

`definition` makes a frozen, checked dataclass whose constructor raises nothing but ConfigurationError: which
setting, the value that was given, and what it may be.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Sequence
from typing import Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from kcontrol.errors import ConfigurationError

T = TypeVar("T")

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
_SHOWN_CHARACTERS = 200


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def definition(cls: type[T]) -> type[T]:
    """Class decorator: a frozen pydantic dataclass that refuses unknown settings and raises
    ConfigurationError."""
    made: Any = pydantic_dataclass(frozen=True, config=_CONFIG)(cls)
    construct = made.__init__
    known = [field.name for field in dataclasses.fields(made) if field.init]

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            construct(self, *args, **kwargs)
        except ValidationError as error:
            name = args[0] if args else kwargs.get("name")
            where = f"{cls.__name__} {name!r}" if isinstance(name, str) else cls.__name__
            raise ConfigurationError(describe(where, error, known)) from None

    made.__init__ = checked
    return made  # type: ignore[no-any-return]


def describe(where: str, error: ValidationError, known: Sequence[str]) -> str:
    """One sentence for each thing that is wrong. known: the settings that there are."""
    details = error.errors(include_url=False, include_context=False)
    shown = _without_alternatives(
        [(detail["type"], detail["loc"], detail["msg"], detail["input"]) for detail in details]
    )
    return "; ".join(f"{where}: {_sentence(*each, known)}" for each in shown)


def _without_alternatives(details: Sequence[Any]) -> list[tuple[str, str, str, Any]]:
    """One entry a setting: pydantic reports every branch of a union that did not match."""
    by_setting: dict[str, tuple[str, list[str], Any]] = {}
    for kind, path, message, given in details:
        setting = str(path[0]) if path else ""
        _, messages, _ = by_setting.setdefault(setting, (kind, [], given))
        messages.append(_plain(message))
    return [
        (kind, setting, ", or ".join(dict.fromkeys(texts)), given)
        for setting, (kind, texts, given) in by_setting.items()
    ]


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def _sentence(kind: str, setting: str, message: str, given: Any, known: Sequence[str]) -> str:
    if kind == "missing" or kind.startswith("missing_"):
        return f"{setting} is missing"
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        close = difflib.get_close_matches(setting, known, n=1)
        return f"there is no setting {setting!r}; " + (
            f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
        )
    if kind == "unexpected_positional_argument":
        return f"too many values without a name: give settings by name ({', '.join(known)})"
    value = repr(given)
    if len(value) > _SHOWN_CHARACTERS:
        value = value[:_SHOWN_CHARACTERS] + "..."
    return f"{setting} = {value}: {message}" if setting else message
