"""Loading a pipeline file: the one pipeline in it, or where it is wrong; and its
functions work where the file is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import cloudpickle

from kcontrol.definition.loader import load_pipeline
from kcontrol.errors import ConfigurationError
from tests.support.patience import HANG_S

PIPELINE = """
import kcontrol

pipeline = kcontrol.Pipeline(
    "NAME",
    inputs=[kcontrol.KafkaInput("flights", topic="flights")],
    outputs=[kcontrol.KafkaOutput("delays", topic="delays")],
)
"""
QUERY = """
LIMIT = 5

def over(value):
    return value > LIMIT

@pipeline.query
def delays(flights):
    return flights

if __name__ == "__main__":
    raise SystemExit("this file was run, not loaded")
"""


def write(folder: Path, text: str, name: str = "flights.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_pipeline_of_a_file_is_found_under_any_name(tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE.replace("NAME", "late-flights") + QUERY + "\nalias = pipeline\n")
    pipeline = load_pipeline(file)
    assert pipeline.name == "late-flights"
    assert [query.name for query in pipeline.queries] == ["delays"]


def test_a_file_can_import_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "NAME = 'from-beside'", "loader_neighbour.py")
    text = "from loader_neighbour import NAME\n" + PIPELINE.replace('"NAME"', "NAME") + QUERY
    assert load_pipeline(write(tmp_path, text)).name == "from-beside"


def test_functions_of_the_file_run_in_a_process_that_can_not_import_it(tmp_path: Path) -> None:
    text = PIPELINE.replace("NAME", "by-value") + QUERY + "\n    ...\n"
    pipeline = load_pipeline(write(tmp_path, text, "by_value.py"))
    over = pipeline.queries[0].function.__globals__["over"]
    pickled = tmp_path / "over.pickle"
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    pickled.write_bytes(dumps(over))
    script = "import pickle, sys; over = pickle.load(open(sys.argv[1], 'rb')); print(over(6), over(5))"
    run = [sys.executable, "-c", script, str(pickled)]
    assert subprocess.run(
        run, check=True, capture_output=True, text=True, timeout=HANG_S, cwd="/"
    ).stdout.split() == [
        "True",
        "False",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "flights.py defines no pipeline"),
        (
            PIPELINE.replace("NAME", "a")
            + QUERY
            + PIPELINE.replace("NAME", "b").replace("pipeline =", "other ="),
            "2 pipelines",
        ),
        (PIPELINE.replace("NAME", "a"), "pipeline 'a' has no query"),
        (
            "\n\nimport there_is_no_such_module",
            "flights.py, line 3: ModuleNotFoundError: .*there_is_no_such_module",
        ),
        ("def broken(:\n  pass", r"^[^,]*flights.py, line 1: SyntaxError: invalid syntax$"),
        (
            "import sys\n\nsys.exit(3)",
            r"flights.py, line 3: the file ended the process itself \(sys.exit\(3\)\)",
        ),
        ("def f():\n    return 1 / 0\n\nf()", "flights.py, line 2: ZeroDivisionError"),
        (
            PIPELINE.replace("NAME", "Not Allowed"),
            "flights.py, line 4: pipeline name 'Not Allowed' is not allowed",
        ),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        load_pipeline(write(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no pipeline file .*missing.py"):
        load_pipeline(tmp_path / "missing.py")
    with pytest.raises(ConfigurationError, match=r"its name must end in .py"):
        load_pipeline(write(tmp_path, "", "flights.txt"))
