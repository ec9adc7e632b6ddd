"""Metrics of all pipelines, worked out from the projections: the same in every server, whoever runs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import counter_family, gauge_family, make_counter, make_histogram
from kcontrol.adapters.metrics.metric import Metric as CatalogueMetric
from kcontrol.core.model import PipelinePhase, StepBoundary
from kcontrol.errors import KcontrolError
from kcontrol.sessions.ports import Clock
from kcontrol.views.cluster_projection import Projections
from kcontrol.views.life import SILENT, UNKNOWN
from kcontrol.views.node_facts import heard_of_ms
from kcontrol.views.pipeline_facts import status_of
from kcontrol.views.pipeline_projection import PipelineProjection

_GAUGES = (
    *(catalogue.READY, catalogue.BROKEN, catalogue.PHASE, catalogue.COMMITTED_STEP, catalogue.STEP_TIMESTAMP),
    *(
        catalogue.INPUT_PAUSED,
        catalogue.REPLAY_INPUT_LEFT,
        catalogue.REPLAY_INPUT_EXPIRING,
        catalogue.LAG_RECORDS,
        catalogue.LAG_SECONDS,
        catalogue.NODE_STEP,
        catalogue.REPLAY_LEFT,
        catalogue.NODE_HEARD,
    ),
    *(
        catalogue.CHECKPOINT_STEP,
        catalogue.CHECKPOINT_TIMESTAMP,
        catalogue.CHECKPOINT_SIZE,
        catalogue.CHECKPOINT_DURATION,
    ),
    *(catalogue.CHECKPOINT_FAILED, catalogue.CLAIM_EPOCH, catalogue.COORDINATOR),
    *(
        catalogue.COORDINATED,
        catalogue.COORDINATOR_HEARD,
        catalogue.LAG_KNOWN,
        catalogue.CLOCK_DIFFERENCE,
        catalogue.SCHEMAS,
    ),
)


class PipelineMetrics(Collector):
    """Counts steps as they come; everything else is looked up when Prometheus asks, in the
    event loop of the projections."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._projections: Projections | None = None
        self._steps = make_counter(catalogue.STEPS, registry)
        self._records_in = make_counter(catalogue.RECORDS_IN, registry)
        self._records_out = make_counter(catalogue.RECORDS_OUT, registry)
        self._skipped = make_counter(catalogue.RECORDS_SKIPPED, registry)
        self._late = make_counter(catalogue.LATE_ROWS, registry)
        self._passed = make_counter(catalogue.OFFSETS_SKIPPED, registry)
        self._open = make_histogram(catalogue.TRANSACTION_OPEN, registry)
        registry.register(self)

    def watch(self, projections: Projections) -> None:
        """Where to look from now on."""
        self._projections = projections

    def on_step(self, pipeline: str, boundary: StepBoundary) -> None:
        """A step has been committed."""
        self._steps.labels(pipeline, boundary.reason.value).inc()
        self._open.labels(pipeline).observe(max(0, boundary.committed_ms - boundary.opened_ms) / 1000)
        for piece in boundary.inputs:
            self._records_in.labels(pipeline, piece.input).inc(piece.records)
        for out in boundary.outputs:
            self._records_out.labels(pipeline, out.output).inc(out.records)
        for skipped in boundary.skipped:
            self._skipped.labels(pipeline, skipped.input).inc(skipped.records)
        for late in boundary.late_rows:
            self._late.labels(pipeline, late.query).inc(late.rows)
        for passed in boundary.skipped_ranges:
            self._passed.labels(pipeline, passed.input).inc(passed.to - passed.from_)

    def describe(self) -> Iterable[Metric]:
        """Names only; nothing is looked up."""
        return [*(gauge_family(metric) for metric in _GAUGES), counter_family(catalogue.REJECTED)]

    def collect(self) -> Iterator[Metric]:
        """What the projections say now."""
        projections = self._projections
        if projections is None:
            return
        gauges = {metric.name: gauge_family(metric) for metric in _GAUGES}
        gauges[catalogue.READY.name].add_metric([], 0 if projections.blocked() else 1)
        for name in projections.broken():
            gauges[catalogue.BROKEN.name].add_metric([name], 1)
        for name in projections.known():
            try:
                self._add(gauges, projections.get(name))
            except KcontrolError:
                # Not read yet, or broken: both have a metric of their own.
                continue
        yield from gauges.values()
        rejected = counter_family(catalogue.REJECTED)
        for reason, count in projections.rejected().items():
            rejected.add_metric([reason], count)
        yield rejected

    def _add(self, gauges: dict[str, GaugeMetricFamily], projection: PipelineProjection) -> None:
        name, now_ms = projection.pipeline, self._clock.now_ms()
        status, committed, claim = (
            status_of(projection, now_ms),
            projection.committed,
            projection.view.claim(),
        )

        def put(metric: CatalogueMetric, value: float, *labels: str) -> None:
            gauges[metric.name].add_metric([name, *labels], value)

        for phase in (*(each.value for each in PipelinePhase), UNKNOWN):
            put(catalogue.PHASE, status.phase == phase, phase)
        put(catalogue.COORDINATED, status.has_coordinator)
        if status.coordinator_silent_ms is not None:
            put(catalogue.COORDINATOR_HEARD, (now_ms - status.coordinator_silent_ms) / 1000)
        put(catalogue.COMMITTED_STEP, committed.step)
        if committed.last is not None:
            put(catalogue.STEP_TIMESTAMP, committed.last.committed_ms / 1000)
        for waiting in status.inputs:
            put(catalogue.INPUT_PAUSED, waiting.paused, waiting.input)
            put(catalogue.LAG_RECORDS, waiting.waiting, waiting.input)
            put(catalogue.LAG_SECONDS, (waiting.waiting_ms or 0) / 1000, waiting.input)
            put(catalogue.LAG_KNOWN, not waiting.unasked, waiting.input)
        for found in status.replay:
            if found.left is not None and found.expiring is not None:
                put(catalogue.REPLAY_INPUT_LEFT, found.left, found.input)
                put(catalogue.REPLAY_INPUT_EXPIRING, found.expiring, found.input)
        for node in status.nodes:
            heard_ms = heard_of_ms(projection, node.node, now_ms)
            if heard_ms is not None:
                put(catalogue.NODE_HEARD, heard_ms / 1000, str(node.node))
                put(catalogue.NODE_STEP, node.step, str(node.node))
                if node.phase != SILENT:
                    left = committed.step - node.step if node.replaying is not None else 0
                    put(catalogue.REPLAY_LEFT, left, str(node.node))
        if committed.checkpoints:
            newest = committed.checkpoints[-1]
            put(catalogue.CHECKPOINT_STEP, newest.step)
            put(catalogue.CHECKPOINT_TIMESTAMP, newest.now_ms / 1000)
            put(catalogue.CHECKPOINT_SIZE, sum(part.size_bytes for part in newest.parts))
            put(catalogue.CHECKPOINT_DURATION, max(0, newest.now_ms - newest.begun_ms) / 1000)
        put(catalogue.CHECKPOINT_FAILED, bool(status.checkpoint_failure))
        put(catalogue.CLAIM_EPOCH, status.claim_epoch)
        put(catalogue.CLOCK_DIFFERENCE, status.clock_difference_ms / 1000)
        of_outputs = sum(1 for each in status.schemas if each.output)
        put(catalogue.SCHEMAS, len(status.schemas) - of_outputs, "input")
        put(catalogue.SCHEMAS, of_outputs, "output")
        if claim is not None:
            put(catalogue.COORDINATOR, 1, claim.host, str(claim.process_id))
