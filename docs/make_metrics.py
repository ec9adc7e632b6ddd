"""Writes docs/metrics.md from the catalogue in the code: `python -m docs.make_metrics`.

tests/docs/test_reference.py fails when the page is not current.
"""

from __future__ import annotations

from pathlib import Path

from kcontrol.adapters.metrics.catalogue import CATALOGUE
from kcontrol.adapters.metrics.metric import Metric, MetricKind, Where

PAGE = Path(__file__).parent / "metrics.md"

INTRODUCTION = """# Metrics

Made from `kcontrol/adapters/metrics/catalogue.py` by `python -m docs.make_metrics`: do not edit.

Every process that listens serves them for Prometheus under `/metrics`, with Prometheus' own figures of the process
(`process_*`). A server with a token wants it here too. `docker/grafana/kcontrol.json` is a dashboard for Grafana and
`docker/prometheus/alerts.yaml` holds alert rules; a test holds both to this list.

Counters begin at 0 when a process starts, as Prometheus expects: what had happened before is not counted again. When several
servers of one cluster are scraped, each counts the same steps: take one of them, or `max` instead of `sum`.
"""

_SECTIONS = {
    Where.SERVER: """## Of pipelines

From `kcontrol serve`, and from a coordinator with `--http-port`. They are worked out from the topics, so every server says the
same, whoever runs the pipelines.
""",
    Where.COORDINATOR: """## Of a coordinator

From a coordinator with `--http-port`, about the pipelines that it looks after. An attempt whose commit was asked for and not
answered is not counted as aborted: its step may be found committed.
""",
    Where.NODE: """## Of a node

From a node with `--metrics-port`.
""",
    Where.DELIVERY: """## Of a delivery

From `kcontrol deliver` with `--metrics-port`.
""",
    Where.PUSHES: """## Of rows that are pushed

From `kcontrol serve` with [`--max-push-bytes`](howto/push.md). Each server counts what it was asked for itself, so here
`sum` over servers is right. What names no pipeline, input or parameter that there is, is counted nowhere.
""",
    Where.STREAMS: """## Of outputs that are streamed

From `kcontrol serve` with [`--max-streams`](rest.md#following-an-output). Each server counts what it
has sent itself, so here, too, `sum` over servers is right.
""",
}


def render() -> str:
    """The whole page."""
    sections = [INTRODUCTION]
    for where, introduction in _SECTIONS.items():
        rows = "".join(_row(metric) for metric in CATALOGUE if metric.where is where)
        sections.append(f"{introduction}\n| metric | kind | labels | |\n|---|---|---|---|\n{rows}")
    return "\n".join(sections)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.text}{_buckets(metric)} |\n"


def _buckets(metric: Metric) -> str:
    if metric.kind is not MetricKind.HISTOGRAM:
        return ""
    return f" Buckets from {metric.buckets[0]:g} s to {metric.buckets[-1]:g} s."


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
