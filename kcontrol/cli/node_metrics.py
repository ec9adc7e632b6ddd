"""Metrics and profiles of a node, which its own process serves."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import click

from kcontrol.adapters.http.listener import Listener
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.adapters.metrics.nodes import NodeMetrics
from kcontrol.adapters.profiling.profiler import Profiler
from kcontrol.apps.node_service import NodeOptions


def with_metrics(
    stack: ExitStack,
    listener: Listener,
    options: NodeOptions,
    pipeline: str,
    profiler: Profiler,
    as_json: bool,
) -> NodeOptions:
    """The node is observed, says where, and answers for its metrics and profiles until the stack is left."""
    # Whoever serves nothing need not wait for the libraries of a server.
    from kcontrol.apps.http_server import serve_metrics

    registry = make_registry()
    serve = partial(serve_metrics, listener, registry, profiler, options.health)
    stack.enter_context(listener.in_thread(serve))
    url = listener.url
    click.echo(json.dumps({"metrics": url}) if as_json else f"metrics at {url}/metrics")
    observer = NodeMetrics(registry, pipeline, options.node)
    return replace(options, observer=observer, listens=listener.reachable_url)
