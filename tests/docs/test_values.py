"""The page about values has a line for every JSON value that the engine's test runs, and says the same of
it."""

from __future__ import annotations

from pathlib import Path

from tests.support.json_values import BAD, JSON_VALUES, SCHEMA

PAGE = (Path(__file__).parents[2] / "docs" / "values.md").read_text(encoding="utf-8")


def test_the_table_of_json_values_is_that_of_the_test() -> None:
    lines = PAGE.partition("## JSON")[2].partition("\n## ")[0].splitlines()
    told = dict(line.strip("| ").split(" | ") for line in lines if line.startswith("| "))
    del told["value"]
    assert list(told) == list(JSON_VALUES)
    for name, (_, gives) in JSON_VALUES.items():
        assert (told[name] == "bad") == (gives == BAD), name
        assert told[name] == "bad" or told[name].startswith("a row"), name
    assert f"`{SCHEMA}`" in PAGE
