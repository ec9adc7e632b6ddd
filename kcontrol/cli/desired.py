"""`kcontrol pause`, `resume` and `stop`: say what is wanted, and wait until the coordinator has acted on
it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kcontrol.apps.ask import TIMEOUT_S, ask_mode
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.model import DesiredMode
from kcontrol.settings.cluster import ClusterSettings

STOP_TIMEOUT_S = 240.0
"""A stop waits up to `Limits(stop_save_timeout=...)` for the last step to be saved, 2 minutes by default."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _timeout_option(default_s: float) -> Callable[[_Command], _Command]:
    kind = click.FloatRange(0.1)
    return click.option(
        "--timeout",
        "timeout_s",
        type=kind,
        default=default_s,
        show_default=True,
        help="Seconds to wait for it.",
    )


timeout_option = _timeout_option(TIMEOUT_S)


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def pause(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Make no more steps; the nodes stay open, so that `resume` goes on at once.

    \b
    Example:  kcontrol pause flights
    """
    _ask(pipeline, DesiredMode.PAUSED, timeout_s, cluster, as_json)


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def resume(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Go on after a pause, a stop or a halt. After a halt, put right first what `kcontrol status` names.

    \b
    Example:  kcontrol resume flights
    """
    _ask(pipeline, DesiredMode.RUNNING, timeout_s, cluster, as_json)


@click.command()
@click.argument("pipeline")
@_timeout_option(STOP_TIMEOUT_S)
@cluster_option
@json_option
@debug_option
def stop(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Make no more steps, save the last one, and close the nodes' queries.

    A start or restart then has nothing to run again. When the last step can't be saved, or not in time, the
    pipeline is stopped nevertheless, and the answer says why.

    \b
    Example:  kcontrol stop flights
    """
    _ask(pipeline, DesiredMode.STOPPED, timeout_s, cluster, as_json)


def _ask(pipeline: str, mode: DesiredMode, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    said = asyncio.run(ask_mode(cluster, pipeline, mode, timeout_s))
    facts = {"pipeline": pipeline, "phase": said.phase.value, "step": said.step, "reason": said.reason}
    reason = f"; {said.reason}" if said.reason and mode is DesiredMode.STOPPED else ""
    click.echo(
        json.dumps(facts)
        if as_json
        else f"pipeline {pipeline}: {said.phase.value} at step {said.step}{reason}"
    )
