"""The pages that are made from the code say what the code says."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from docs import make_cli, make_metrics, make_rest, make_schemas, make_settings
from tests.docs.blocks import ROOT


@pytest.mark.parametrize(
    "maker",
    [make_cli, make_metrics, make_rest, make_schemas, make_settings],
    ids=lambda maker: maker.__name__,
)
def test_the_page_is_current(maker: ModuleType) -> None:
    assert maker.PAGE.read_text(encoding="utf-8") == maker.render(), f"run: python -m {maker.__name__}"


def test_no_variable_of_the_environment_is_left_out() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "kcontrol").rglob("*.py"))
    read = set(re.findall(r'"((?:KCONTROL|XDG)_[A-Z_]+)"', sources))
    assert "KCONTROL_BOOTSTRAP_SERVERS" in read
    told = set(re.findall(r"^\| `([A-Z_]+)` \|", make_settings.render(), re.MULTILINE))
    assert read <= told
