"""Another version of kcontrol, installed beside this one: its code with another number, and with a field more in the records
that nodes and coordinators write all the time."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

from tests.support.processes import ROOT

NUMBER = "0.2.0"
FIELD = "of_next"
RAISED = ("NodeJoin", "NodeState", "Written", "Command", "Status", "Claim", "StepBoundary")


def install(directory: Path) -> dict[str, str]:
    """Put it there, with its loops compiled as `kcontrol warm` leaves them; the environment in which processes run it."""
    left_out = shutil.ignore_patterns("*.pyc")
    shutil.copytree(ROOT / "kcontrol", directory / "kcontrol", ignore=left_out)
    shutil.copytree(ROOT / "schemas", directory / "kcontrol" / "schemas", ignore=left_out)
    version = directory / "kcontrol" / "version.py"
    version.write_text(version.read_text().replace('"0.1.0"', f'"{NUMBER}"'))
    told = directory / f"kcontrol-{NUMBER}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kcontrol\nVersion: {NUMBER}\n")
    for record in RAISED:
        _raise(directory / "kcontrol", record)
    return {"PYTHONPATH": f"{directory}:{ROOT}"}


def _raise(package: Path, record: str) -> None:
    """A version more of a record's schema."""
    current = package / "schemas" / f"{record}.avsc"
    schema = json.loads(current.read_text())
    schema["fields"].append({"name": FIELD, "type": "string", "default": ""})
    history = package / "schemas" / "history" / record
    for path in (current, history / f"v{len(list(history.iterdir())) + 1}.avsc"):
        path.write_text(json.dumps(schema))
    _add_field(package / "core" / "model", record)


def _add_field(model: Path, record: str) -> None:
    for file in model.glob("*.py"):
        text = file.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and node.name == record:
                assert node.end_lineno is not None
                lines = text.splitlines()
                lines.insert(node.end_lineno, f'    {FIELD}: str = "said by {NUMBER}"')
                file.write_text("\n".join(lines) + "\n")
                return
    raise AssertionError(f"there is no record {record} in {model}")
