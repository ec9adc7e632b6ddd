"""Pipeline files: loading one, and which file a pipeline was last run from on this machine.

The latter is noted so that a command that needs a pipeline's code can be given its name.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkRuntimeError

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session.build import session
from kcontrol.apps.phases import STARTING_SPARK, phase
from kcontrol.definition.loader import load_pipeline
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from kcontrol.settings.places import data_home
from kcontrol.wire.names import check_pipeline_name


def load_definition(file: Path, master: str | None = None, as_json: bool = False) -> Pipeline:
    """Load a pipeline file, with a Spark session if its top level needs one (a UDF
    declared with a type in words does).

    Raises ConfigurationError as `load_pipeline` does, JavaError when Spark is needed and Java is missing.
    """
    try:
        return load_pipeline(file)
    except ConfigurationError as error:
        if not _wants_session(error.__cause__):
            raise
    find_java()
    with phase(f"{STARTING_SPARK}, which the file needs to be read", as_json):
        session(master=master, hushed=True)
    return load_pipeline(file)


def sized(pipeline: Pipeline, nodes: int | None) -> Pipeline:
    """The pipeline on as many nodes as the command line says; it wins over the file,
    being said later and on purpose."""
    return pipeline if nodes is None else pipeline.with_nodes(nodes)


def check_number(pipeline: Pipeline, node: int) -> None:
    """Raise ConfigurationError if the pipeline has no node of that number."""
    if node >= pipeline.nodes:
        raise ConfigurationError(
            f"--node {node}: pipeline {pipeline.name!r} has the nodes 0 to {pipeline.nodes - 1}"
        )


def _wants_session(cause: BaseException | None) -> bool:
    return isinstance(cause, PySparkRuntimeError) and cause.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS"


def remember_source(pipeline: str, file: Path) -> None:
    """Note that `pipeline` is defined in `file`."""
    note = _note(pipeline)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(str(file.resolve()), encoding="utf-8")


def remembered_source(pipeline: str) -> Path | None:
    """The file that a node of `pipeline` was last started with on this machine; None: there was none, or it is gone."""
    note = _note(check_pipeline_name(pipeline))
    file = Path(note.read_text(encoding="utf-8")) if note.is_file() else None
    return file if file is not None and file.is_file() else None


def find_pipeline(name_or_file: str, as_json: bool = False) -> Pipeline:
    """The pipeline in a file, or by the name under which a node was last started here. Raises
    ConfigurationError."""
    if name_or_file.endswith(".py"):
        return load_definition(Path(name_or_file), as_json=as_json)
    note = _note(check_pipeline_name(name_or_file))
    if not note.is_file():
        raise ConfigurationError(
            f"pipeline {name_or_file!r} was never run on this machine, so its code is not known: give "
            "its file instead"
        )
    pipeline = load_definition(Path(note.read_text(encoding="utf-8")), as_json=as_json)
    if pipeline.name != name_or_file:
        raise ConfigurationError(
            f"{note.read_text(encoding='utf-8')} now defines {pipeline.name!r}, not {name_or_file!r}: "
            "give the right file"
        )
    return pipeline


def _note(pipeline: str) -> Path:
    return data_home() / "files" / pipeline
