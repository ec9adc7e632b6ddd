"""Where kcontrol keeps files on this machine, unless told otherwise: XDG's directories, on every system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def data_home(environ: Mapping[str, str] = os.environ) -> Path:
    """What outlives a process: XDG_DATA_HOME/kcontrol, or ~/.local/share/kcontrol."""
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "kcontrol"


def cache_home(environ: Mapping[str, str] = os.environ) -> Path:
    """What can be had again: XDG_CACHE_HOME/kcontrol, or ~/.cache/kcontrol."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kcontrol"
