"""`kcontrol replay`: run recorded steps again and hand on what they give: to the
terminal, to files, to other topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import click

from kcontrol.adapters.spark.sink.spool import check_local
from kcontrol.apps.recorded import RecordedSteps, recorded_steps
from kcontrol.apps.rerun import RerunTarget, range_options, refuse, run_again, verdict
from kcontrol.apps.topic_copies import open_copies
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.source import find_pipeline
from kcontrol.core.step.differences import Difference
from kcontrol.definition.pipeline import Pipeline
from kcontrol.replay.delivery import Destination, ReplayedStep
from kcontrol.replay.record_files import RecordFiles
from kcontrol.replay.record_text import record_json, record_line
from kcontrol.settings.cluster import ClusterSettings

PRINT = "print"
PRINTED_RECORDS = 1_000
"""Of one step, unless --limit says otherwise."""


def _copies(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        output, equals, topic = value.partition("=")
        if not (output and equals and topic):
            raise click.BadParameter(f"{value!r} is not OUTPUT=TOPIC")
        if output in found:
            raise click.BadParameter(
                f"output {output!r} is given two topics, {found[output]!r} and {topic!r}"
            )
        found[output] = topic
    return found


@dataclass(frozen=True)
class Wanted:
    """Where the records are to go. `output`: 'print', a directory, or None for topics alone."""

    output: str | None
    copies: dict[str, str]
    limit: int | None
    overwrite: bool
    as_json: bool

    @property
    def printed(self) -> bool:
        return self.output == PRINT


@click.command()
@click.argument("pipeline")
@range_options("deliver and compare")
@click.option(
    "--output",
    metavar="print|DIR",
    help="Print the records, or write them to a directory: a file of JSON lines for each step and output, "
    "and each boundary. Default: print, unless --topic is given.",
)
@click.option(
    "--overwrite", is_flag=True, help="DIR may hold files already; those of the same name are replaced."
)
@click.option(
    "--topic",
    "copies",
    metavar="OUTPUT=TOPIC",
    multiple=True,
    callback=_copies,
    help="Write the records of an output to an existing topic that no pipeline writes to. Repeatable.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help=f"Print or write to files at most N records of a step. Default: {PRINTED_RECORDS:,} printed, all "
    "to files.",
)
@cluster_option
@json_option
@debug_option
def replay(
    pipeline: str, first: int | None, last: int | None, master: str | None, own: Path, output: str | None, overwrite: bool,
    copies: dict[str, str], limit: int | None, cluster: ClusterSettings, as_json: bool,
) -> None:  # fmt: skip
    """Run the recorded steps of PIPELINE again on this machine, deliver what they give, and compare it with
    the log.

    PIPELINE is a name, if a node of it was last started on this machine, or the pipeline's file. The pipeline
    itself, running or not, does not notice. Exit code 0 only if every record count and digest agrees; 7
    otherwise, and each difference is printed (on standard error, where the records are on standard output).
    Where there is state, steps before --from are run too, from the nearest checkpoint on, but not delivered.

    \b
    Example:  kcontrol replay flights --from 100 --to 102
              kcontrol replay flights --from 100 --to 102 --output steps/ --topic delays=delays-again
    """
    wanted = Wanted(output or (None if copies else PRINT), copies, limit, overwrite, as_json)
    _check_options(wanted)
    if master is not None:
        check_local(master)
    definition = find_pipeline(pipeline, as_json)
    place = RerunTarget("replay", cluster, master, own, as_json)
    refuse(definition.name, asyncio.run(_replay(definition, (first, last), place, wanted)))


def _check_options(wanted: Wanted) -> None:
    if wanted.limit is not None and wanted.output is None:
        raise click.UsageError(
            "--limit is for what is printed or written to files: a topic gets every record"
        )
    if wanted.overwrite and (wanted.printed or wanted.output is None):
        raise click.UsageError("--overwrite is for --output DIR")


async def _replay(
    definition: Pipeline, steps: tuple[int | None, int | None], place: RerunTarget, wanted: Wanted
) -> list[Difference]:
    recorded = await recorded_steps(place.cluster, definition.name, *steps, place.checkpoints)
    with ExitStack() as stack:
        destinations = await _open(stack, place.cluster, recorded, wanted)

        def deliver(step: ReplayedStep) -> None:
            for destination in destinations:
                left_out = destination.deliver(step)
                if left_out:
                    click.echo(
                        f"step {step.boundary.step}: {left_out:,} more records are left out (--limit)",
                        err=True,
                    )

        def report(node: int, step: int, found: Sequence[Difference]) -> None:
            click.echo(verdict(node, step, found, wanted.as_json), err=wanted.printed)

        return await run_again(definition, recorded, place, report, deliver)


async def _open(
    stack: ExitStack, cluster: ClusterSettings, recorded: RecordedSteps, wanted: Wanted
) -> list[Destination]:
    destinations: list[Destination] = []
    if wanted.printed:
        destinations.append(PrintedRecords(wanted.limit or PRINTED_RECORDS, wanted.as_json))
    elif wanted.output is not None:
        destinations.append(RecordFiles(Path(wanted.output), wanted.limit, wanted.overwrite))
        stack.callback(destinations[-1].close)
    if wanted.copies:
        destinations.append(await open_copies(cluster, recorded.spec, wanted.copies))
        stack.callback(destinations[-1].close)
    return destinations


@dataclass
class PrintedRecords:
    """A destination: standard output, one line a record. limit: of records of one step, over all nodes."""

    limit: int
    as_json: bool
    _printed: dict[int, int] = field(default_factory=dict)

    def deliver(self, step: ReplayedStep) -> int:
        """See `Destination.deliver`."""
        number = step.boundary.step
        printed, left_out = self._printed.get(number, 0), 0
        for record in step.records:
            if printed >= self.limit:
                left_out += 1
                continue
            click.echo(record_json(number, record) if self.as_json else record_line(number, record))
            printed += 1
        self._printed[number] = printed
        if step.last_node:
            del self._printed[number]
        return left_out

    def close(self) -> None:
        """There is nothing to close."""
