"""The dashboard and the alert rules ask for metrics, and for labels, that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcontrol.adapters.metrics.catalogue import CATALOGUE
from kcontrol.adapters.metrics.metric import Metric, MetricKind


def series_of(metric: Metric) -> tuple[str, ...]:
    """The names that a query may use."""
    if metric.kind is MetricKind.HISTOGRAM:
        return tuple(f"{metric.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
    return (metric.name,)


DOCKER = Path(__file__).parents[3] / "docker"
SERIES = {name: metric for metric in CATALOGUE for name in series_of(metric)}
PROCESS = {"process_cpu_seconds_total"}
OF_PROMETHEUS = {"le", "instance", "job"}

_NAME = re.compile(r"\b(?:kcontrol_[a-z0-9_]+|process_[a-z_]+_(?:total|bytes|seconds|fds))\b")
_SELECTOR = re.compile(r"\b(kcontrol_[a-z0-9_]+)\{([^}]*)\}")
_MATCHED = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


def queries_of_the_dashboard() -> Iterator[str]:
    dashboard = json.loads((DOCKER / "grafana" / "kcontrol.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"].removeprefix("label_values(").removesuffix(")")


def queries_of_the_alerts() -> Iterator[str]:
    rules = yaml.safe_load((DOCKER / "prometheus" / "alerts.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def wrong_names(query: str) -> list[str]:
    """Metrics of a query that there are not, and labels that its metrics don't have."""
    names = set(_NAME.findall(query))
    wrong = sorted(names - SERIES.keys() - PROCESS)
    labels = {label for name in names & SERIES.keys() for label in SERIES[name].labels} | OF_PROMETHEUS
    for name, selector in _SELECTOR.findall(query):
        own = {*SERIES[name].labels, *OF_PROMETHEUS} if name in SERIES else OF_PROMETHEUS
        wrong += [f"{name}{{{label}}}" for label in _MATCHED.findall(selector) if label not in own]
    for group in _GROUPED.findall(query):
        wrong += [f"by {label.strip()}" for label in group.split(",") if label.strip() not in labels]
    return wrong


@pytest.mark.parametrize("query", [*queries_of_the_dashboard(), *queries_of_the_alerts()])
def test_every_query_asks_for_what_there_is(query: str) -> None:
    assert _NAME.search(query)
    assert wrong_names(query) == []


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("kcontrol_step_total", ["kcontrol_step_total"]),
        ("kcontrol_recovery_seconds", ["kcontrol_recovery_seconds"]),
        ('kcontrol_steps_total{output="x"}', ["kcontrol_steps_total{output}"]),
        ("sum by (node) (kcontrol_steps_total)", ["by node"]),
    ],
)
def test_what_there_is_not_is_found(query: str, wrong: list[str]) -> None:
    assert wrong_names(query) == wrong


def test_the_dashboard_shows_every_kind_of_figure_and_all_alerts_say_what_to_do() -> None:
    shown = {
        name
        for query in (*queries_of_the_dashboard(), *queries_of_the_alerts())
        for name in _NAME.findall(query)
    }
    assert {metric.name for metric in CATALOGUE if not shown & set(series_of(metric))} == NOT_SHOWN
    for rule in (rule for group in _alerts()["groups"] for rule in group["rules"]):
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


NOT_SHOWN = {
    "kcontrol_schemas",
    "kcontrol_region_state_number",
    *("kcontrol_cluster_members", "kcontrol_cluster_offset", "kcontrol_cluster_snapshot_offset"),
    *(
        "kcontrol_step_timestamp_seconds",
        "kcontrol_records_skipped_total",
        "kcontrol_node_step",
        "kcontrol_checkpoint_step",
    ),
    *(
        "kcontrol_attempts_total",
        "kcontrol_node_replayed_steps_total",
        "kcontrol_coordinator_heard_timestamp_seconds",
        "kcontrol_coordinator_active",
    ),
    *("kcontrol_delivered_step", "kcontrol_streamed_steps_total"),
}
"""For whoever asks for them: the dashboard has what one looks at first."""


def _alerts() -> Any:
    return yaml.safe_load((DOCKER / "prometheus" / "alerts.yaml").read_text())


def _is_conventional(metric: Metric) -> bool:
    return metric.kind.value != "counter" or metric.name.endswith("_total")


def test_names_follow_the_conventions() -> None:
    assert [metric.name for metric in CATALOGUE if not _is_conventional(metric)] == []
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)
    for metric in CATALOGUE:
        assert re.fullmatch(r"kcontrol_[a-z_]+", metric.name)
        assert metric.text.endswith(".")
        assert not re.search(r"_(ms|millis|kb|mb|percent)(_|$)", metric.name)
