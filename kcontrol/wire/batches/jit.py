"""How the compiled codec is compiled: ahead of its first call, without the GIL, and cached
on disk for every later process.

Numba keeps its cache beside the source or, when that can't be written, in the user's cache directory. A
service account without a home has neither; then the cache goes to a directory of the temporary directory that
is this user's alone, because what is in it is executed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core.options import DefaultOptions

BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
LONGS_IN = types.Array(types.int64, 1, "C", readonly=True)
"""Arguments that are only read: Arrow's buffers can't be written."""

UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
"""For numba, which otherwise counts references to each array that one function gives to another, inlined or not, as if that
could be the last one. Nothing that is compiled here makes an array. It was two thirds of the time of a loop over bytes: see
docs/decisions/187-no-references-are-counted.md."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compile for exactly this signature: another argument type is an error, never a slow recompilation in a
    task. The function makes no arrays."""

    def decorate(function: _Function) -> _Function:
        try:
            return _compile(function, signature, cache=True)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
        directory = private_cache_directory()
        if directory is not None:
            cast(Any, numba.config).CACHE_DIR = str(directory)
        return _compile(function, signature, cache=directory is not None)

    return decorate


def inlined(function: _Function) -> _Function:
    """A part of compiled functions, compiled with each of them."""
    return cast(_Function, cast(Any, numba).njit(nogil=True, forceinline=True, **UNCOUNTED)(function))


def private_cache_directory() -> Path | None:
    """A directory that nobody else can write to, or None."""
    directory = Path(tempfile.gettempdir()) / f"kcontrol-numba-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return directory if private else None


def _compile(function: _Function, signature: Any, *, cache: bool) -> _Function:
    return cast(_Function, cast(Any, numba).njit(signature, nogil=True, cache=cache, **UNCOUNTED)(function))
