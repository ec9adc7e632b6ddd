"""Loads the pipeline that a Python file defines.

The file is run as a module of its own name, not as `__main__`, so that it may also start itself when it is
run directly. Its functions travel to Spark's workers by value, because the workers can't import it.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError


def load_pipeline(path: Path | str) -> Pipeline:
    """Run the file and return the one Pipeline among its names.

    Raises ConfigurationError when there is no such file, it fails (with the line), or it
    holds none or several pipelines.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ConfigurationError(f"there is no pipeline file {path}")
    module = _run(file)
    found = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, Pipeline)}
    if not found:
        raise ConfigurationError(
            f"{path} defines no pipeline: assign a kcontrol.Pipeline(...) to a name at its top level"
        )
    if len(found) > 1:
        names = ", ".join(f"{name} ({value.name!r})" for name, value in found.values())
        raise ConfigurationError(
            f"{path} defines {len(found)} pipelines: {names}; give each a file of its own"
        )
    [(_, pipeline)] = found.values()
    if not pipeline.queries:
        raise ConfigurationError(
            f"{path}: pipeline {pipeline.name!r} has no query: decorate a function with @pipeline.query"
        )
    return pipeline


def _run(file: Path) -> ModuleType:
    name = f"kcontrol_pipeline_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{file} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # As when the file is run directly: what lies beside it can be imported.
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except ConfigurationError as error:
        raise ConfigurationError(f"{_place(file, error)}: {error}") from error
    except SyntaxError as error:
        # The text of the error would name file and line once more.
        raise ConfigurationError(f"{_place(file, error)}: {type(error).__name__}: {error.msg}") from error
    except SystemExit as error:
        raise ConfigurationError(
            f"{_place(file, error)}: the file ended the process itself (sys.exit({error.code!r})) instead "
            "of defining a pipeline; what is only for running it directly belongs under: if __name__ == "
            "'__main__'"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{_place(file, error)}: {type(error).__name__}: {error}") from error
    _send_by_value(module)
    return module


def _place(file: Path, error: BaseException) -> str:
    """File and line of an error: the innermost line of the pipeline file itself."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    return f"{file}, line {lines[-1]}" if lines else str(file)


def _send_by_value(module: ModuleType) -> None:
    # Imported late: a process that only reads definitions need not load Spark's Python side first.
    from pyspark import cloudpickle

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    register(module)
