"""Writes docs/reference/settings.md from the classes that hold the settings: `python -m docs.make_settings`.

A class says in its docstring what each of its settings is, as `name: text.`; a setting without words makes
this fail, so that none is left out. tests/docs/test_reference.py fails when the page is not current.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from fractions import Fraction
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from kcontrol.adapters.kafka.client.options import KNOWN_SETTINGS
from kcontrol.adapters.spark.engine.ahead import WAIT_MS, WAIT_SETTING
from kcontrol.adapters.spark.engine.small_steps import RECORDS, RECORDS_SETTING
from kcontrol.adapters.spark.session.compilers import NICENESS, NICENESS_SETTING
from kcontrol.adapters.spark.session.conf import SETTINGS
from kcontrol.apps.logs import DEBUG_VARIABLE
from kcontrol.definition.durations import Duration, PositiveDuration, span_text
from kcontrol.definition.files import FileInput
from kcontrol.definition.generated import ClockInput, GeneratorInput
from kcontrol.definition.limits import Limits
from kcontrol.definition.parts import CheckpointPolicy, KafkaInput, KafkaOutput, StepPolicy, TaskLayout
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.rebalance import Rebalance
from kcontrol.sessions.health import DEFAULT_LIMITS, SHARES
from kcontrol.settings.cluster import REFUSED_SETTINGS, ClusterSettings
from kcontrol.settings.registry import KNOWN_SETTINGS as REGISTRY_SETTINGS
from kcontrol.settings.registry import RegistrySettings
from kcontrol.settings.toml import ENVIRONMENT_NAME
from kcontrol.wire.batches.codec import CODEC_VARIABLE
from kcontrol.wire.names import DEFAULT_NAMES

PAGE = Path(__file__).parent / "reference" / "settings.md"

INTRODUCTION = """# Settings

Made from the code by `python -m docs.make_settings`: do not edit.

What belongs to a pipeline is in its file; where Kafka is and how to speak to it is in `kcontrol.toml` or the environment; what
belongs to one process is an option of its [command](cli.md).

A duration is a text such as `"100 ms"`, `"60 s"`, `"5 min"`, `"1 h"` or `"1 d"`, or a whole number of milliseconds.
Settings that are unknown are refused, with the nearest name that there is.
"""

TOML = """## kcontrol.toml

In the working directory of each process. `${NAME}` in any value is replaced from the environment. An example:
[operations.md](../operations.md#finding-the-cluster).
"""

CLIENT = """### [kafka.client]

By librdkafka's names, for every client in every process; what they mean: [security.md](../security.md#logging-in). These are
known, and any other is refused:
"""

REGISTRY = """### [schema_registry]

Needed by values of the format `confluent-avro` ([how to](../howto/schema-registry.md)).
"""

NAMES = """### [kafka.names]

Names in Kafka that shall differ. `{prefix}` and `{pipeline}` stand for themselves; the name of one pipeline's thing must hold
`{pipeline}`.
"""

_ENVIRONMENT = (
    (
        ENVIRONMENT_NAME,
        "the address of Kafka, `host:port[,host:port...]`; before `kcontrol.toml`, after "
        "`--bootstrap-servers`",
    ),
    (DEBUG_VARIABLE, "anything: as `--debug` for every command and all that it starts"),
    (
        CODEC_VARIABLE,
        "`compiled` or `reference`: which codec reads and writes record batches. Unset: the compiled "
        "one, if numba is there",
    ),
    (
        "XDG_DATA_HOME",
        "`$XDG_DATA_HOME/kcontrol` holds what outlives a process: broker, Spark's state, logs. Unset: "
        "`~/.local/share`",
    ),
    ("XDG_CACHE_HOME", "`$XDG_CACHE_HOME/kcontrol` holds the jars of the broker. Unset: `~/.cache`"),
    ("JAVA_HOME", "the Java that broker and Spark run on. Unset: `java` from `PATH`"),
    ("KCONTROL_FORK", "`0`: Spark starts each of its Python processes by itself, and none is forked"),
    ("KCONTROL_FORK_SERVER", "set by a node for its own processes: the socket of what forks them"),
    ("KCONTROL_BEGUN_ANEW", "set by a node that begins again in its own process, for that"),
    (
        "KCONTROL_PROCESS",
        "set by a node for itself: its process id and a random name, by which it knows what it has written",
    ),
    ("DEFAULT_ARTIFACT_REPOSITORY", "a Maven repository to fetch the broker's jars from, as PySpark has it"),
)

_PARTS = (
    Pipeline,
    KafkaInput,
    FileInput,
    GeneratorInput,
    ClockInput,
    KafkaOutput,
    StepPolicy,
    CheckpointPolicy,
    TaskLayout,
    Limits,
    Rebalance,
)

HANGING = """## What hangs

How long a process, or something in it, may do nothing before that has consequences follows from one setting,
`silence_timeout` of [Limits](#limits): parts and multiples of it, and never less than what healthy processes need.
"""

SPARK = """## Spark

What a session must have: `kcontrol.session` sets it, `kcontrol conf` prints it, `kcontrol.attach` checks it. Without those for
correctness or the clock a session is refused; the others cost time only.

The driver's JVM, if kcontrol starts it, runs with `-XX:+UseParallelGC -XX:MetaspaceSize=128m`, unless a collector is named in
the session's settings, in `spark-defaults.conf` or in a variable that Java reads; for `spark-submit` give it with
`--driver-java-options`.

Once an application is attached, its JVM writes no `.crc` files beside files on the local disk, whoever writes them: each of
them, and the rights of each, would cost a small step a process. Those that are there are still checked.
"""

AHEAD = f"""\
Of kcontrol's own settings that Spark's configuration takes, those of the side channel are in [Security](../security.md). These
are not needed for anything:

| setting | default | |
|---|---|---|
| `{WAIT_SETTING}` | `{WAIT_MS}` | milliseconds that a job begun ahead waits for its step (decision 049); 0: none is begun |
| `{RECORDS_SETTING}` | `{RECORDS}` | steps with so many records at most are computed without code that is generated\
 for each task (decision 132); 0: none |
| `{NICENESS_SETTING}` | `{NICENESS}` | by how much the optimising compiler of a JVM that kcontrol starts on Linux gives way\
 to everything else (decision 129); 0: not at all |
"""


def render() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *map(_class, _PARTS), _hanging(), _toml(), _environment(), _spark()])


def _class(cls: type) -> str:
    texts = _texts(cls)
    hints = get_type_hints(cls, include_extras=True)
    rows = [
        f"| `{each.name}` | {_kind(hints[each.name])} | {_default(each)} | {texts[each.name]} |\n"
        for each in dataclasses.fields(cls)
        if each.init
    ]
    summary = inspect.getdoc(cls).partition("\n\n")[0].replace("\n", " ")  # type: ignore[union-attr]
    return f"## {cls.__name__}\n\n{summary}\n\n| setting | | default | |\n|---|---|---|---|\n{''.join(rows)}"


def _texts(cls: type) -> dict[str, str]:
    """By setting, what the docstring says of it. Raises KeyError for one without words, when it is looked
    up."""
    names = list(get_type_hints(cls))
    one = "(?:" + "|".join(sorted(names, key=len, reverse=True)) + ")"
    heads = list(
        re.finditer(rf"(?:^|(?<=\n)|(?<=\. )|(?<=\) ))({one}(?:, {one})*):\s", inspect.getdoc(cls) or "")
    )
    ends = [*(head.start() for head in heads[1:]), None]
    found: dict[str, str] = {}
    for head, end in zip(heads, ends, strict=True):
        text = re.sub(r"\s+", " ", (inspect.getdoc(cls) or "")[head.end() : end]).strip()
        for name in head[1].split(", "):
            found[name] = text[:1].upper() + text[1:]
    return found


def _kind(hint: Any) -> str:
    """What may be given, in words."""
    if hint in (Duration, PositiveDuration):
        return "duration"
    if get_origin(hint) is Annotated:
        base, *constraints = get_args(hint)
        return f"{_kind(base)}{_bounds(constraints)}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_kind(each) for each in get_args(hint) if each is not NoneType)
    if get_origin(hint) is Literal:
        return ", ".join(f'`"{each}"`' for each in get_args(hint))
    if get_args(hint):
        inner = [_kind(each) for each in get_args(hint)]
        return f"{{{inner[0]}: {inner[1]}}}" if len(inner) == 2 else f"list of {inner[0]}"
    words = {int: "whole number", str: "text", bool: "`True` or `False`", Any: "any"}
    return words.get(hint) or f"[{hint.__name__}](#{hint.__name__.lower()})"


def _bounds(constraints: list[Any]) -> str:
    limits = {
        type(limit).__name__: limit
        for each in constraints
        if isinstance(each, FieldInfo)
        for limit in each.metadata
    }
    least, most = limits.get("Ge"), limits.get("Le")
    if least is None:
        return ""
    return f" from {least.ge:,}" + (f" to {most.le:,}" if most is not None else "")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"`{value!r}`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory.__name__}()`"
    return "needed"


def _hanging() -> str:
    rows = "".join(
        f"| {share.what} | {_part(share.of_silence)} | {span_text(getattr(DEFAULT_LIMITS, name))} "
        f"| {span_text(share.least_ms)} |\n"
        for name, share in SHARES.items()
    )
    return f"{HANGING}\n| | of `silence_timeout` | by default | at least |\n|---|---|---|---|\n{rows}"


def _part(of_silence: float) -> str:
    part = Fraction(of_silence).limit_denominator(100)
    return f"{part}" if part < 1 else f"{float(part):g} times"


def _toml() -> str:
    texts = _texts(ClusterSettings)
    rows = [
        f"| `{name}` | {default} | {texts[setting]} |\n"
        for name, setting, default in (
            ("bootstrap_servers", "bootstrap_servers", "needed, unless given otherwise"),
            ("prefix", "prefix", f"`{ClusterSettings.model_fields['prefix'].default!r}`"),
            ("replication_factor", "replication_factor", "`0`"),
            ("min_insync_replicas", "min_insync_replicas", "`0`"),
        )
    ]
    known = ", ".join(f"`{name}`" for name in sorted(KNOWN_SETTINGS))
    refused = "".join(f"| `{name}` | {remedy} |\n" for name, remedy in REFUSED_SETTINGS.items())
    names = "".join(f"| `{name}` | `{template}` |\n" for name, template in DEFAULT_NAMES.items())
    return (
        f"{TOML}\n### [kafka]\n\n| setting | default | "
        f"|\n|---|---|---|\n{''.join(rows)}\n{CLIENT}\n{known}.\n\nThese can't be given, because "
        f"correctness depends on them:\n\n| setting | |\n|---|---|\n{refused}\n{NAMES}\n| name | default "
        f"|\n|---|---|\n{names}\n{_registry()}"
    )


def _registry() -> str:
    texts = _texts(RegistrySettings)
    rows = "".join(
        f"| `{name}` | {'needed' if field.is_required() else f'{field.default:,}'} | {texts[name]} |\n"
        for name, field in RegistrySettings.model_fields.items()
        if name != "client"
    )
    known = ", ".join(f"`{name}`" for name in REGISTRY_SETTINGS)
    return (
        f"{REGISTRY}\n| setting | default | |\n|---|---|---|\n{rows}\n### [schema_registry.client]\n\nBy Confluent's "
        f"names: {known}.\n"
    )


def _environment() -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in _ENVIRONMENT)
    return f"## Environment\n\n| variable | |\n|---|---|\n{rows}"


def _spark() -> str:
    rows = "".join(
        f"| `{each.name}` | `{each.value}` | {each.need.value} | {each.why} |\n" for each in SETTINGS
    )
    return f"{SPARK}\n| setting | value | for | otherwise, or why |\n|---|---|---|---|\n{rows}\n{AHEAD}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
