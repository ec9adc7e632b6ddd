"""Another policy of the cluster, as a user asks for it: by the names of what is to be changed. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from kcontrol.core.cluster.model import ClusterPolicy, Scheduler
from kcontrol.errors import ConfigurationError

NAMES = tuple(one.name for one in fields(ClusterPolicy))
SHORTEST_BEAT_MS, LONGEST_BEAT_MS = 200, 60_000
"""The shortest leaves Kafka half a second for two appends and a fetch, and whoever is later misses nobody for as long as that
lasts (decision 161); with longer ones than the longest nobody would miss a host."""


def changed_policy(policy: ClusterPolicy, asked: Sequence[str]) -> ClusterPolicy:
    """The policy with what was asked for, NAME=VALUE each. Raises ConfigurationError: that is none."""
    if not asked:
        raise ConfigurationError(f"say what is to be changed, with --set NAME=VALUE: {', '.join(NAMES)}")
    parts: dict[str, Any] = {}
    for one in asked:
        name, is_there, text = one.partition("=")
        if not is_there or name not in NAMES:
            raise ConfigurationError(f"--set {one}: give NAME=VALUE, with one of {', '.join(NAMES)}")
        if name in parts:
            raise ConfigurationError(f"--set {one}: {name} is given twice")
        parts[name] = _scheduler(text) if name == "scheduler" else _number(name, text)
    found = replace(policy, **parts)
    if "beat_ms" in parts and not SHORTEST_BEAT_MS <= found.beat_ms <= LONGEST_BEAT_MS:
        raise ConfigurationError(f"beat_ms is from {SHORTEST_BEAT_MS} to {LONGEST_BEAT_MS}")
    if found.nonsense:
        raise ConfigurationError(f"that makes no sense: {found.nonsense}")
    return found


def _scheduler(text: str) -> Scheduler:
    try:
        return Scheduler(text)
    except ValueError:
        raise ConfigurationError(f"there is no scheduler {text!r}: {', '.join(Scheduler)}") from None


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise ConfigurationError(f"{name}={text}: give a whole number")
    return int(text)
