"""The command line: `kcontrol COMMAND`. One file a group of commands; here only what they share at the top.

Every failure that a user can cause ends with one sentence on standard error and the exit code of its class; a
traceback appears only with --debug, because it tells a user nothing about what to do.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from kcontrol.apps.logs import DEBUG_VARIABLE
from kcontrol.errors import KcontrolError
from kcontrol.settings.handover import hand_over_soon
from kcontrol.version import __version__

INTERNAL_ERROR = 70
INTERRUPTED = 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    any other error
  2    a setting, pipeline definition or option is wrong; nothing was started
  3    Kafka can't be reached, is too old, or refused; or nobody acted in time
  4    Java is missing or of a wrong version, or the broker's jars are not right
  5    fenced: somebody newer owns the transaction
  6    a step failed
  7    a step that was run again did not give what the log says
  8    input that is needed is no longer in Kafka
  9    the pipeline has halted and waits for a person
  10   there is no such pipeline, step or input
  11   a record in Kafka is damaged
  12   replaced by a newer node or coordinator
  13   Spark's JVM died or hung under a node, or the node's own process hung; start the node again
  14   a part of a checkpoint can't be written, is missing or is damaged
  15   Kafka refuses the credentials or does not allow what is needed; the message says what to grant
  16   a delivery has halted and waits for a person: the message says what to do
  17   the target of a delivery was away for longer than it is waited for
  18   the registry of schemas refuses the credentials or a schema; the message says what to do
  19   the registry of schemas can't be reached
  20   left out: the pipeline's layout was changed and has no such node any more; do not start it again
  21   steps that were read are void since a reset of their pipeline
  22   a topic is missing, or can't be used as it is; the message says which
  70   a bug in kcontrol: run again with --debug and report it
  130  interrupted
"""


COMMANDS = {
    "run": "kcontrol.cli.run",
    "broker": "kcontrol.cli.broker",
    "coordinator": "kcontrol.cli.coordinator",
    "node": "kcontrol.cli.node",
    "submit": "kcontrol.cli.submit",
    "agent": "kcontrol.cli.agent",
    "place": "kcontrol.cli.cluster",
    "kill": "kcontrol.cli.cluster",
    "drain": "kcontrol.cli.cluster",
    "cluster": "kcontrol.cli.cluster",
    "list": "kcontrol.cli.overview",
    "status": "kcontrol.cli.read",
    "steps": "kcontrol.cli.read",
    "log": "kcontrol.cli.read",
    "pause": "kcontrol.cli.desired",
    "resume": "kcontrol.cli.desired",
    "stop": "kcontrol.cli.desired",
    "pause-input": "kcontrol.cli.inputs",
    "resume-input": "kcontrol.cli.inputs",
    "skip": "kcontrol.cli.inputs",
    "insert": "kcontrol.cli.insert",
    "checkpoint": "kcontrol.cli.checkpoint",
    "layout": "kcontrol.cli.layout",
    "upgrade": "kcontrol.cli.upgrade",
    "reset": "kcontrol.cli.reset",
    "cut": "kcontrol.cli.cut",
    "region": "kcontrol.cli.region",
    "region-controller": "kcontrol.cli.region_controller",
    "operator": "kcontrol.cli.operator",
    "wait": "kcontrol.cli.wait",
    "serve": "kcontrol.cli.serve",
    "deliver": "kcontrol.cli.deliver",
    "verify": "kcontrol.cli.verify",
    "replay": "kcontrol.cli.replay",
    "query": "kcontrol.cli.query",
    "query-server": "kcontrol.cli.query_server",
    "repair": "kcontrol.cli.repair",
    "delete": "kcontrol.cli.delete",
    "conf": "kcontrol.cli.conf",
    "warm": "kcontrol.cli.warm",
    "acls": "kcontrol.cli.acls",
}
"""The module of each command, in the order of the help. Imported when used: a look at a status needs no
Spark."""


NAMES = {"list": "list_all"}
"""Of commands whose own name is a word of Python."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        close = get_close_matches(args[0], COMMANDS, 1)
        if args[0] not in COMMANDS and close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        found = import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(found, NAMES.get(cmd_name, cmd_name.replace("-", "_")))
        return command


@click.group(
    cls=_Commands,
    epilog=EXIT_CODES,
    context_settings={"max_content_width": 120, "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="kcontrol")
def cli() -> None:
    """Runs PySpark pipelines on Kafka step by step: each step's output and the record of its
    input commit in one transaction.

    \b
    Start with:  kcontrol run examples/flights.py
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `kcontrol` command; always ends the process."""
    hand_over_soon()
    asked = sys.argv[1:] if arguments is None else arguments
    if asked[:1] == ["node"] and not {"-h", "--help", "--standby"} & {*asked}:
        # It imports beside this process, which takes as long to come to where it needs it. Who is to stand by is often
        # started when another takes over, and lets that one go first.
        from kcontrol.adapters.spark.session.fork_server.process import early

        early.begin()
    sys.exit(run_command(arguments))


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    try:
        cli.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="kcontrol",
            standalone_mode=False,
        )
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except Exception as error:  # noqa: BLE001 - the outermost place: whatever it is, people get a sentence and an exit code
        return _explain(error)
    return 0


def _explain(error: Exception) -> int:
    cause = known_cause(error)
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if cause is not None:
        click.echo(f"kcontrol: {cause}", err=True)
        return cause.exit_code
    click.echo(
        f"kcontrol: internal error: {type(error).__name__}: {error}. Run the same command with --debug "
        "and report the output.",
        err=True,
    )
    return INTERNAL_ERROR


def known_cause(error: BaseException) -> KcontrolError | None:
    """The first of kcontrol's own errors in an exception or a group of them."""
    if isinstance(error, KcontrolError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((cause for inner in error.exceptions if (cause := known_cause(inner)) is not None), None)
    return None
