"""What must hold of a definition that comes ready-made, as JSON, instead of from a pipeline file on a node.

Its parts go through the same checks as a user's own: they are built anew by the classes that a pipeline file
is written with. What only Spark can say (queries, state, the fingerprint) can't be checked here; a node that
starts works it out for itself, and does not start if it differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from kcontrol.core.model import InputSpec, PipelineSpec
from kcontrol.definition.exchanges import SEND
from kcontrol.definition.limits import Limits
from kcontrol.definition.parts import CheckpointPolicy, KafkaOutput, StepPolicy, TaskLayout
from kcontrol.definition.rebalance import Rebalance
from kcontrol.errors import ConfigurationError, SpecChangedError
from kcontrol.wire.addresses import address_of, is_topic
from kcontrol.wire.files import files_of, is_files
from kcontrol.wire.names import check_exchange_name, check_part_name, check_pipeline_name, check_topic_name
from kcontrol.wire.surrogates import is_half

MAX_NODES = 10_000
FORMATS = ("raw", "json", "avro", "confluent-avro", "confluent-json", "confluent-protobuf")
LINE_FORMATS = ("csv",)
"""Of inputs of files, beside those."""

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_LONG = 2**63


def check_spec(spec: PipelineSpec) -> None:
    """Raises ConfigurationError naming the first thing that no pipeline can have."""
    _check_values(asdict(spec), "spec")
    check_pipeline_name(spec.pipeline)
    for each in (spec.fingerprint, *spec.compatible_with):
        if not _FINGERPRINT.fullmatch(each):
            raise ConfigurationError(
                f"{each!r} is not a fingerprint: 64 hexadecimal digits, as a node has worked it out"
            )
    if not 1 <= spec.nodes <= MAX_NODES:
        raise ConfigurationError(f"nodes = {spec.nodes}: must be 1 to {MAX_NODES}")
    for what, names in (
        ("queries", spec.queries),
        ("inputs", [each.name for each in spec.inputs]),
        ("outputs", [each.name for each in spec.outputs]),
        ("topics of outputs", [each.topic for each in spec.outputs]),
    ):
        _check_names(what, names)
    for query in spec.queries:
        check_part_name("query", query.removesuffix(SEND))
    for item in spec.inputs:
        _check_input(spec, item)
    _check_outputs(spec)
    _check_exchanges(spec)
    _check_settings(spec)


def succeed_unchanged(spec: PipelineSpec, earlier: PipelineSpec | None) -> PipelineSpec:
    """The spec to log when `earlier` is in force: of a pipeline that has a history only its settings may
    change (policy, limits, checkpoints, rebalancing). Raises SpecChangedError for anything else: that is for a node, which
    can see the queries."""
    if earlier is None:
        return spec
    kept = replace(
        earlier,
        policy=spec.policy,
        limits=spec.limits,
        checkpoint=spec.checkpoint,
        rebalance=spec.rebalance,
    )
    changed = [name for name, value in asdict(spec).items() if value != asdict(kept)[name]]
    if changed:
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r} is in the log with other {', '.join(changed)}; only policy, limits, "
            "checkpoint and rebalance can be changed without a node: start one with the new file"
        )
    return kept


def _check_values(value: Any, where: str) -> None:
    """Numbers that fit and text that can be written."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_values(inner, f"{where}.{name.rstrip('_')}")
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_values(inner, where)
    elif isinstance(value, int) and not -_LONG <= value < _LONG:
        raise ConfigurationError(f"{where}: {value} is too large")
    elif isinstance(value, str) and is_half(value):
        raise ConfigurationError(f"{where}: is not text")


def _check_names(what: str, names: Iterable[str]) -> None:
    found = list(names)
    if not found:
        raise ConfigurationError(f"{what}: there must be one at least")
    if len(set(found)) < len(found):
        raise ConfigurationError(f"{what}: {', '.join(sorted(found))}: each must be there once")


def _check_input(spec: PipelineSpec, item: InputSpec) -> None:
    where = f"input {item.name!r}"
    check_part_name("input", item.name)
    if is_topic(item.topic):
        check_topic_name(f"{where}: topic", item.topic)
    elif is_files(item.topic):
        files_of(item.topic)
    else:
        address_of(item.topic)
    formats = (*FORMATS, *LINE_FORMATS) if is_files(item.topic) else FORMATS
    if item.value_format not in formats:
        raise ConfigurationError(
            f"{where}: value_format = {item.value_format!r}: must be one of {', '.join(formats)}"
        )
    if len(item.start_offsets) != len(item.node_of) or not item.node_of:
        raise ConfigurationError(
            f"{where}: start_offsets and node_of must have an entry for each partition of its topic"
        )
    if any(offset < 0 for offset in item.start_offsets):
        raise ConfigurationError(f"{where}: start_offsets must not be negative")
    if any(not 0 <= node < spec.nodes for node in item.node_of):
        raise ConfigurationError(f"{where}: node_of names a node that there is not: nodes = {spec.nodes}")
    if item.look_bytes_per_s < 1:
        raise ConfigurationError(f"{where}: look_bytes_per_s = {item.look_bytes_per_s}: must be 1 or more")
    outputs = {each.name for each in spec.outputs}
    if item.dead_letter_output not in ("", f"{item.name}.dead_letter") or item.dead_letter_output not in (
        "",
        *outputs,
    ):
        raise ConfigurationError(
            f"{where}: dead_letter_output = {item.dead_letter_output!r}: there is no such output for it"
        )


def _check_outputs(spec: PipelineSpec) -> None:
    dead_letters = {item.dead_letter_output for item in spec.inputs}
    for output in spec.outputs:
        where = f"output {output.name!r}"
        if output.name not in dead_letters:
            KafkaOutput(output.name, topic=output.topic, digest=output.digest)
        check_topic_name(f"{where}: topic", output.topic)
        if output.value_format not in FORMATS:
            raise ConfigurationError(
                f"{where}: value_format = {output.value_format!r}: must be one of {', '.join(FORMATS)}"
            )
        if output.partitions < 1:
            raise ConfigurationError(f"{where}: partitions = {output.partitions}: must be 1 or more")


def _check_exchanges(spec: PipelineSpec) -> None:
    names = [each.name for each in spec.exchanges]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"exchanges: {', '.join(sorted(names))}: each must be there once")
    if len(spec.stages) not in (0, len(spec.queries)) or any(stage < 0 for stage in spec.stages):
        raise ConfigurationError(
            "stages: there must be one, 0 or more, for each of the queries, or none at all"
        )
    stages = dict(zip(spec.queries, spec.stages, strict=False))
    for each in spec.exchanges:
        where = f"exchange {each.name!r}"
        check_exchange_name(each.name)
        check_topic_name(f"{where}: topic", each.topic)
        if stages.get(each.sender, -1) != each.stage:
            raise ConfigurationError(
                f"{where}: sender = {each.sender!r}: must be a query of stage {each.stage}"
            )
        if each.delivers and each.delivers not in {output.name for output in spec.outputs}:
            raise ConfigurationError(f"{where}: delivers = {each.delivers!r}: there is no such output")
    delivers_only = all(each.delivers for each in spec.exchanges)
    most = MAX_NODES if delivers_only else spec.layout.shuffle_partitions
    if spec.exchanges and not 1 < spec.nodes <= most:
        raise ConfigurationError(
            f"exchanges: nodes = {spec.nodes}: must be 2 to layout.shuffle_partitions = "
            f"{spec.layout.shuffle_partitions}, or more where rows are only delivered"
        )
    for watermark in spec.watermarks:
        if watermark.query not in spec.queries or any(delay < 0 for delay in watermark.delays_ms):
            raise ConfigurationError(
                f"watermarks: query = {watermark.query!r}: must be one of the queries, with delays of 0 or more"
            )


def _check_settings(spec: PipelineSpec) -> None:
    policy, checkpoint = spec.policy, spec.checkpoint
    StepPolicy(
        min_records=policy.min_records,
        max_delay=policy.max_delay_ms,
        max_records=policy.max_records,
        clock=policy.clock_ms or None,
        late_rows=policy.late_rows.value,
        gaps_delay=policy.gaps_delay_ms,
    )
    TaskLayout(**asdict(spec.layout))
    Limits(**{name.removesuffix("_ms"): value for name, value in asdict(spec.limits).items()})
    if checkpoint.location:
        CheckpointPolicy(
            checkpoint.location,
            every=checkpoint.every_ms,
            keep=checkpoint.keep,
            keep_steps=None if checkpoint.keep_steps == -1 else checkpoint.keep_steps,
            shared=checkpoint.shared,
        )
    if spec.rebalance is not None:
        Rebalance(
            every=spec.rebalance.every_ms,
            when=spec.rebalance.when_percent / 100,
            checkpoints=spec.rebalance.checkpoints,
            least_bytes=spec.rebalance.least_bytes,
            timeout=spec.rebalance.timeout_ms,
        )
