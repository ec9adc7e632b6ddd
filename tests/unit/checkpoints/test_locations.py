"""Which locations are understood, and what is said of the others; credentials never appear."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace, StoreLimits
from kcontrol.adapters.checkpoints.locations import open_location, own_checkpoints, placed
from kcontrol.core.model import IN_WORK_DIR
from kcontrol.errors import ConfigurationError
from tests.support.parts import contents_of, make_pin, place

LIMITS = StoreLimits()


@pytest.mark.parametrize(
    "form", ["{path}", "file:{path}", "file://{path}", "file://localhost{path}", "{path}/"]
)
def test_a_directory_in_any_form(tmp_path: Path, form: str) -> None:
    directory = tmp_path / "durable place"
    location = form.format(path=directory if form.startswith("{") else str(directory).replace(" ", "%20"))
    saved = CheckpointStore().save(place(location, 2), make_pin(tmp_path / "pin", {"a": b"1"}))
    assert (directory / saved.manifest).is_file()
    CheckpointStore().restore(str(directory), saved.manifest, tmp_path / "back")
    assert contents_of(tmp_path / "back") == {"a": b"1"}


def test_s3_takes_its_settings_from_the_url() -> None:
    opened = open_location(
        "s3://bucket/some//path/?endpoint_override=127.0.0.1:9000&scheme=http&region=eu-west-1&force_virtual_addressing=false",
        LIMITS,
    )
    assert (opened.base, opened.shown) == ("bucket/some/path", "s3://bucket/some//path/")
    assert opened.filesystem.region == "eu-west-1"


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("checkpoints", "not absolute"),
        ("file://host/checkpoints", "not file:///path"),
        ("ftp://host/checkpoints", "begins with 'ftp:'"),
        ("s3:///path", "names no bucket"),
        ("s3://bucket/path?regoin=x", "'regoin' is not known"),
        ("s3://bucket/path?anonymous=perhaps", "'anonymous' is not known or has a wrong value"),
        ("s3://[bucket/path", "not a URL"),
    ],
)
def test_what_can_not_be_a_location_is_told(location: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        CheckpointStore().parts(location, "orders", "log", 0)


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIA:sEcReT@bucket/path",
        "s3://sEcReT@bucket/path",
        "s3://bucket/path?secret_key=sEcReT",
        "hdfs://a:sEcReT@host/path",
    ],
)
def test_credentials_in_the_location_are_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        CheckpointStore().parts(location, "orders", "log", 0)
    assert "sEcReT" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b"])
def test_names_that_can_not_be_directories_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be a directory's name"):
        CheckpointStore().save(
            PartPlace(str(tmp_path), name, "log", 0, 1, 1, 1), make_pin(tmp_path / "pin", {})
        )


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigurationError, match="parallel_files is 0"):
        StoreLimits(parallel_files=0)


def test_a_nodes_own_checkpoints_are_in_the_directory_that_all_nodes_of_its_machine_work_in() -> None:
    assert placed(IN_WORK_DIR, own_checkpoints(Path("/nodes"))) == "/nodes/checkpoints"
    assert placed("s3://bucket/path", None) == "s3://bucket/path"
    with pytest.raises(ConfigurationError, match="it is not known where"):
        placed(IN_WORK_DIR, None)
