"""`kcontrol status`, `steps` and `log`: look at a pipeline's logs and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import click

from kcontrol.adapters.kafka.admin.topic_safety import safety_now
from kcontrol.apps.look import status_once
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.show import logged_json, logged_line, step_json, step_line, time_text
from kcontrol.cli.deliveries import delivery_line, status_json, told_deliveries
from kcontrol.cli.input_facts import input_line
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.overview import print_list
from kcontrol.cli.timing import timing_header, timing_json, timing_line
from kcontrol.core.coordinator.clock import difference_text
from kcontrol.core.model import Logged, LoggedStep, StepBoundary
from kcontrol.definition.durations import span_text
from kcontrol.errors import ConfigurationError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.node_facts import NodeFacts
from kcontrol.views.pipeline_facts import PipelineStatus, with_safety
from kcontrol.views.void_steps import SeenResets

follow_option = click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")


@click.command()
@click.argument("pipeline", required=False)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Name the records of the control topic that were left out, one by one.",
)
@cluster_option
@json_option
@debug_option
def status(pipeline: str | None, verbose: bool, cluster: ClusterSettings, as_json: bool) -> None:
    """Print whether a pipeline runs, how far it is, what waits, and why it halted if it has. Without
    PIPELINE: of all, as `kcontrol list`.

    \b
    Example:  kcontrol status flights
    """
    if pipeline is None:
        print_list(cluster, as_json)
        return
    facts, rejected, named = asyncio.run(_status(pipeline, cluster))
    deliveries, unknown = told_deliveries(cluster, facts)
    if as_json:
        click.echo(status_json(facts, deliveries, unknown))
        return
    click.echo(f"pipeline   {facts.pipeline}: {facts.phase} (wanted: {facts.desired})")
    if facts.reason:
        click.echo(f"reason     {facts.reason}")
    click.echo(
        f"committed  step {facts.step}"
        + (f", {time_text(facts.step_ms)}" if facts.step_ms is not None else "")
    )
    if facts.checkpoint_location or facts.checkpoint or facts.checkpoint_failure:
        click.echo(f"saved      {_saved(facts)}")
    if facts.late_rows:
        click.echo(
            f"late       {facts.late_rows:,} rows dropped by watermarks in the newest steps; which: "
            "kcontrol steps"
        )
    click.echo(f"led by     {_coordinator(facts)}")
    if facts.clock_difference_ms:
        click.echo(f"clock      {difference_text(facts.clock_difference_ms)}")
    for waiting in facts.inputs:
        click.echo(f"input      {input_line(waiting)}")
    for about, lines in (("schemas", _schemas(facts)), ("layout", _layout(facts))):
        for line in lines:
            click.echo(f"{about:<11}{line}")
    for planning in dict.fromkeys(filter(None, (each.planning for each in facts.nodes))):
        click.echo(f"planned    {planning}")
    for each in facts.nodes:
        click.echo(f"node {each.node:<5} {_node(each)}")
    for line in (*map(delivery_line, deliveries), *filter(None, (unknown,))):
        click.echo(f"delivery   {line}")
    if rejected:
        more = "" if verbose else f" (kcontrol status {facts.pipeline} -v names them)"
        click.echo(
            f"left out   {rejected} records of the control partition that are not kcontrol's, or "
            f"damaged{more}"
        )
        for where in named if verbose else ():
            click.echo(f"           {where}")
    for warning in facts.warnings:
        click.echo(f"warning    {warning}")
    for sentence in facts.unsafe:
        click.echo(f"unsafe     {sentence}")


def _saved(facts: PipelineStatus) -> str:
    """The newest checkpoint; of a pipeline that saves nothing it says only where its log can be read from."""
    if facts.checkpoint_location:
        text = f"step {facts.checkpoint}" if facts.checkpoint else "nothing yet"
        text += f", in {facts.checkpoint_location}"
    else:
        text = (
            f"no state; the newest checkpoint is of step {facts.checkpoint}"
            if facts.checkpoint
            else "no state"
        )
    return text + (f"; {facts.checkpoint_failure}" if facts.checkpoint_failure else "")


def _coordinator(facts: PipelineStatus) -> str:
    if facts.coordinator_silent_ms is None:
        return "no coordinator yet"
    heard = span_text(facts.coordinator_silent_ms)
    return f"coordinator {facts.coordinator} " + (
        f"(heard of {heard} ago)" if facts.has_coordinator else f"(not heard for {heard})"
    )


def _schemas(facts: PipelineStatus) -> Iterable[str]:
    met = [str(each.id) for each in facts.schemas if not each.output]
    if met:
        yield f"in values of inputs: {', '.join(met)}"
    for each in facts.schemas:
        if each.output:
            yield f"of output {each.output}: {each.id}, {each.subject} in the registry"


def _layout(facts: PipelineStatus) -> Iterable[str]:
    change = facts.layout.changes
    if facts.layout.balance and (change is None or not change.why):
        yield facts.layout.balance
    if change is None:
        return
    what = "what was asked for is withdrawn" if not change.nodes else f"{change.nodes} nodes are asked for"
    what = change.why or what
    size = "" if change.total_bytes is None else f", {change.copied_bytes:,} of {change.total_bytes:,} bytes"
    left = f", about {change.seconds_left} s left" if change.seconds_left else ""
    why = f": {change.text}" if change.text else ""
    yield f"{what}; {change.phase}, {change.moved_shards} shards move{size}{left}{why}"


def _node(facts: NodeFacts) -> str:
    if facts.incarnation is None:
        return "absent: it has never joined"
    heard = f", heard of {span_text(facts.silent_ms)} ago"
    more = (f": {facts.error}" if facts.error else "") + (
        f"; {facts.made_otherwise}" if facts.made_otherwise else ""
    )
    return f"{facts.doing_text}{heard}{more}"


async def _status(pipeline: str, cluster: ClusterSettings) -> tuple[PipelineStatus, int, Sequence[str]]:
    async with pipeline_logs(cluster, pipeline) as logs:
        facts = await status_once(logs, cluster)
        known = await asyncio.to_thread(safety_now, cluster, logs.spec())
        return with_safety(facts, known), logs.own_control.rejected, logs.own_control.left_out


@click.command()
@click.argument("pipeline")
@click.option(
    "--from",
    "first",
    type=click.IntRange(1),
    default=1,
    help="First step to print. Default: the first there is.",
)
@click.option("--to", "last", type=click.IntRange(1), help="Last step to print.")
@follow_option
@click.option("--timing", is_flag=True, help="Print where each step's time went instead, in milliseconds.")
@cluster_option
@json_option
@debug_option
def steps(
    pipeline: str,
    first: int,
    last: int | None,
    follow: bool,
    timing: bool,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Print a pipeline's committed steps, one a line: what each read and wrote, and since which reset it is
    void, if it is. --json prints the whole boundary.

    With --timing each column is a mark on the step's way, and the time from the one before to it. How a step
    ended is known when the next one is committed; --follow prints it then.

    \b
    Examples:  kcontrol steps flights --from 100 --to 120 --json
               kcontrol steps flights --timing --follow
    """
    if last is not None and last < first:
        raise ConfigurationError(
            f"--from {first} --to {last}: there is no step between them; --to must not be before --from"
        )
    asyncio.run(_steps(pipeline, printer_of(first, last, as_json=as_json, timing=timing), follow, cluster))


class StepPrinter:
    """Prints the boundaries of steps `first` to `last` as they come."""

    ahead = 0
    """How many boundaries after a step's own it takes to print it whole."""

    def __init__(self, first: int, last: int | None, as_json: bool) -> None:
        self.first, self.last, self._as_json = first, last, as_json
        self.void = SeenResets()

    def take(self, chunk: Iterable[LoggedStep]) -> bool:
        """Print those that are asked for; whether there may be more of them."""
        for logged in chunk:
            boundary = logged.record
            if (
                isinstance(boundary, StepBoundary)
                and boundary.step >= self.first
                and not self._take(boundary)
            ):
                return False
        return True

    def end(self) -> None:
        """Nothing more comes."""

    def _take(self, boundary: StepBoundary) -> bool:
        if self.last is not None and boundary.step > self.last:
            return False
        click.echo((step_json if self._as_json else step_line)(boundary, self.void.since(boundary.step)))
        return boundary.step != self.last


class TimingPrinter(StepPrinter):
    """Prints where their time went: each when the one after it is known, the newest at the end."""

    ahead = 1

    def __init__(self, first: int, last: int | None, as_json: bool) -> None:
        super().__init__(first, last, as_json)
        self._held: StepBoundary | None = None
        self._has_header = as_json

    def end(self) -> None:
        self._print(None)

    def _take(self, boundary: StepBoundary) -> bool:
        self._print(boundary)
        self._held = boundary if self.last is None or boundary.step <= self.last else None
        return self._held is not None

    def _print(self, after: StepBoundary | None) -> None:
        if self._held is not None:
            if not self._has_header:
                click.echo(timing_header())
                self._has_header = True
            click.echo((timing_json if self._as_json else timing_line)(self._held, after))


def printer_of(first: int, last: int | None, *, as_json: bool, timing: bool) -> StepPrinter:
    """What prints the steps as the options say."""
    return TimingPrinter(first, last, as_json) if timing else StepPrinter(first, last, as_json)


async def _steps(pipeline: str, printer: StepPrinter, follow: bool, cluster: ClusterSettings) -> None:
    first, last = printer.first, None if follow else printer.last
    async with pipeline_logs(cluster, pipeline) as logs:
        if last is None:
            committed = await logs.read_steps(first, None)
            resets = [each.record for each in committed if isinstance(each.record, StepBoundary)]
        else:
            await logs.read()
            resets = await logs.resets()
            await logs.steps.begin_at_step(first)
            committed = await logs.steps.read_through(last + printer.ahead)
        for each in resets:
            printer.void.see(each)
        if follow:
            if printer.take(committed):
                async for chunk in logs.steps.tail():
                    if not printer.take(chunk):
                        return
            return
        if logs.committed.step < (last or first) and (first > 1 or last is not None):
            raise NotFoundError(
                f"pipeline {pipeline!r} has no step {last or first} yet: it has committed "
                f"{logs.committed.step}"
            )
        if printer.take(committed):
            printer.end()


@click.command()
@click.argument("pipeline")
@follow_option
@cluster_option
@json_option
@debug_option
def log(pipeline: str, follow: bool, cluster: ClusterSettings, as_json: bool) -> None:
    """Print the control messages of a pipeline, decoded, in order.

    The control topic is compacted: of older messages only the newest of each key is left.

    \b
    Example:  kcontrol log flights --follow
    """
    asyncio.run(_log(pipeline, follow, cluster, as_json))


async def _log(pipeline: str, follow: bool, cluster: ClusterSettings, as_json: bool) -> None:
    def show(chunk: Iterable[Logged]) -> None:
        for logged in chunk:
            click.echo(logged_json(logged) if as_json else logged_line(logged))

    async with pipeline_logs(cluster, pipeline) as logs:
        records, _ = await logs.read()
        show(records)
        if follow:
            async for chunk in logs.control.tail():
                show(chunk)
