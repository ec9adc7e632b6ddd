"""What the exit code of a process says to whoever has started it, `kcontrol run` and agents alike: whether another
one would do better, here or anywhere."""

from __future__ import annotations

from enum import StrEnum

from kcontrol.errors import (
    AccessError,
    ConfigurationError,
    JavaError,
    LeftOutError,
    NotFoundError,
    RegistryError,
    ReplacedError,
)


class ExitVerdict(StrEnum):
    """Of one process that has ended."""

    ASKED = "asked"
    """It was asked to end, and did."""
    REPLACED = "replaced"
    """Another process is at work in its place."""
    LEFT_OUT = "left out"
    """There is no such place any more: nobody is to start it again."""
    USELESS = "useless"
    """Another one would end like it, on any host, before a person has acted."""
    USELESS_HERE = "useless here"
    """This host lacks something."""
    FAILED = "failed"
    """Another one may do better."""


_VERDICTS = {
    0: ExitVerdict.ASKED,
    ReplacedError.exit_code: ExitVerdict.REPLACED,
    LeftOutError.exit_code: ExitVerdict.LEFT_OUT,
    ConfigurationError.exit_code: ExitVerdict.USELESS,
    NotFoundError.exit_code: ExitVerdict.USELESS,
    AccessError.exit_code: ExitVerdict.USELESS,
    RegistryError.exit_code: ExitVerdict.USELESS,
    JavaError.exit_code: ExitVerdict.USELESS_HERE,
}


def verdict_of(code: int | None) -> ExitVerdict:
    """code: negative, or 128 and more: ended by a signal. None: nobody could write it down."""
    return ExitVerdict.FAILED if code is None else _VERDICTS.get(code, ExitVerdict.FAILED)
