"""`kcontrol wait`: until input records are in committed steps."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import click

from kcontrol.adapters.generated.facts import AnyRecordLook
from kcontrol.adapters.kafka.read.record_look import KafkaRecordLook
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.cli.desired import timeout_option
from kcontrol.cli.options import cluster_option, debug_option, json_option, look_option
from kcontrol.core.model import PipelinePhase, StepBoundary
from kcontrol.errors import ConfigurationError, HaltedError, NotFoundError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.completion import (
    NEVER_READ,
    Completion,
    CompletionState,
    InputRecord,
    completions,
    is_complete,
    parse_token,
)
from kcontrol.views.fates import fates
from kcontrol.views.look_limits import MAX_LOOK_OFFSETS
from kcontrol.views.step_index import skips

LOOK_EVERY_S = 1.0
"""At the status, for a halt; steps are seen when they are committed."""


@click.command()
@click.argument("pipeline")
@click.option(
    "--token", help="What kcontrol.completion_token returned: TOPIC:PARTITION:OFFSET, or several with commas."
)
@click.option("--topic", help="Topic of an input, with --partition and --offset.")
@click.option("--partition", type=click.IntRange(0))
@click.option("--offset", type=click.IntRange(0))
@timeout_option
@look_option
@cluster_option
@json_option
@debug_option
def wait(
    pipeline: str,
    token: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    timeout_s: float,
    max_look_offsets: int,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Wait until input records are in committed steps of PIPELINE; answers with the steps.

    Exit code 3 if they are not in time: the same command can be given again. Exit code 9 if the pipeline has
    halted, 10 if one was not read and never will be: aborted, deleted, compacted away, skipped, or a bad
    record.

    \b
    Example:  kcontrol wait orders --token orders:3:1042
    """
    records = _records(token, topic, partition, offset)
    for each in asyncio.run(_wait(pipeline, records, timeout_s, cluster, max_look_offsets)):
        facts = {
            "record": str(each.record),
            "input": each.input,
            "state": each.state.value,
            "step": each.step,
        }
        facts |= {"note": each.note} if each.note else {}
        step = "a step that was dropped from the log since" if each.step is None else f"step {each.step}"
        click.echo(
            json.dumps(facts)
            if as_json
            else f"{each.record} (input {each.input}): committed in {step}{each.note and f' ({each.note})'}"
        )


async def committed_steps(
    cluster: ClusterSettings, pipeline: str, records: tuple[InputRecord, ...], timeout_s: float
) -> list[int | None]:
    """Wait as the command does; by record the step, None if it is not known any more."""
    return [each.step for each in await _wait(pipeline, records, timeout_s, cluster, MAX_LOOK_OFFSETS)]


def _records(
    token: str | None, topic: str | None, partition: int | None, offset: int | None
) -> tuple[InputRecord, ...]:
    if token is not None and (topic, partition, offset) == (None, None, None):
        return parse_token(token)
    if token is None and topic is not None and partition is not None and offset is not None:
        return (InputRecord(topic, partition, offset),)
    raise ConfigurationError("give either --token, or all of --topic, --partition and --offset")


async def _wait(
    pipeline: str,
    records: tuple[InputRecord, ...],
    timeout_s: float,
    cluster: ClusterSettings,
    max_look_offsets: int,
) -> list[Completion]:
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        try:
            async with asyncio.timeout(timeout_s):
                await _until_complete(logs, records)
        except TimeoutError:
            left = ", ".join(
                str(each.record)
                for each in completions(logs, records)
                if each.state is CompletionState.WAITING
            )
            raise RetriableError(
                f"pipeline {pipeline!r}: not in a committed step within {timeout_s:g} s: {left}; it has "
                f"committed step {logs.committed.step}; see kcontrol status {pipeline}"
            ) from None
        found = [await _with_step(logs, each) for each in completions(logs, records)]
        return await _told(logs, cluster, found, max_look_offsets)


async def _told(
    logs: PipelineLogs, cluster: ClusterSettings, found: list[Completion], max_look_offsets: int
) -> list[Completion]:
    """With what became of them. Raises NotFoundError if one of them was never read."""

    async def boundary_of(one: Completion) -> StepBoundary | None:
        recent = (logged.record for logged in logs.recent)
        kept = next(
            (each for each in recent if isinstance(each, StepBoundary) and each.step == one.step), None
        )
        if kept is not None or one.step is None:
            return kept
        return await logs.find_step(one.input, one.record.partition, one.record.offset)

    told = await fates(
        logs.spec(), found, boundary_of, AnyRecordLook(KafkaRecordLook(cluster)), max_offsets=max_look_offsets
    )
    never = [each for each in told if each.state in NEVER_READ]
    if never:
        texts = "; ".join(f"{each.record} (input {each.input}): {NEVER_READ[each.state]}" for each in never)
        raise NotFoundError(f"pipeline {logs.pipeline!r}: {texts}")
    return told


async def _with_step(logs: PipelineLogs, found: Completion) -> Completion:
    """Steps before the oldest checkpoint that is kept were not read; one of them is
    looked up if it has to be told."""
    if found.step is not None:
        return found
    record = found.record
    boundary = await logs.find_step(found.input, record.partition, record.offset)
    if boundary is None:
        return found
    if skips(boundary, found.input, record.partition, record.offset):
        raise _skipped(logs, found, boundary.step)
    return replace(found, step=boundary.step)


def _skipped(logs: PipelineLogs, found: Completion, step: int | None) -> NotFoundError:
    return NotFoundError(
        f"pipeline {logs.pipeline!r}, input {found.input!r}: step {step} went past {found.record} at a "
        "user's request (kcontrol skip), and it will never be read"
    )


async def _until_complete(logs: PipelineLogs, records: tuple[InputRecord, ...]) -> None:
    halts = asyncio.create_task(_until_halted(logs))
    steps = asyncio.create_task(_until_committed(logs, records))
    try:
        await asyncio.wait((halts, steps), return_when=asyncio.FIRST_COMPLETED)
        (steps if steps.done() else halts).result()
    finally:
        halts.cancel()
        steps.cancel()
        await asyncio.gather(halts, steps, return_exceptions=True)


async def _until_committed(logs: PipelineLogs, records: tuple[InputRecord, ...]) -> None:
    if _complete(logs, records):
        return
    async for chunk in logs.steps.tail():
        logs.see_steps(chunk)
        if _complete(logs, records):
            return


def _complete(logs: PipelineLogs, records: tuple[InputRecord, ...]) -> bool:
    found = completions(logs, records)
    for each in found:
        if each.state is CompletionState.NOT_READ:
            raise NotFoundError(
                f"pipeline {logs.pipeline!r}, input {each.input!r}: it began after {each.record}, and "
                "will never read it"
            )
        if each.state is CompletionState.SKIPPED:
            raise _skipped(logs, each, each.step)
    return is_complete(found)


async def _until_halted(logs: PipelineLogs) -> None:
    while True:
        said = logs.view.status()
        if said is not None and said.phase is PipelinePhase.HALTED:
            raise HaltedError(f"pipeline {logs.pipeline!r} has halted at step {said.step}: {said.reason}")
        await asyncio.sleep(LOOK_EVERY_S)
        logs.see_control(await logs.control.read_to_end())
