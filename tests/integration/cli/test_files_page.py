"""docs/howto/files.md: its pipeline and its commands, word for word, on files of this test."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import blocks_of
from tests.support.processes import run_kcontrol

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

PAGE = "docs/howto/files.md"
PATIENCE_S = 400.0
FILES, LINES, CUSTOMERS = 3, 4_000, 40


def test_the_page_comes_true(settings: ClusterSettings, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    for number in range(FILES):
        lines = [json.dumps({"customer": f"c{at % CUSTOMERS}", "amount": at}) for at in range(LINES)]
        (spool / f"part-{number}.ndjson").write_text("\n".join(lines) + "\n")
    blocks = blocks_of(PAGE)
    [program] = [block.text for block in blocks if block.title == "orders.py"]
    assert "/var/spool/orders" in program
    (tmp_path / "orders.py").write_text(program.replace("/var/spool/orders", str(spool)))
    env = {
        "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "XDG_DATA_HOME": str(tmp_path / "home"),
    }
    [commands] = [block for block in blocks if block.argument.endswith("cli/test_files_page.py")]
    for line in commands.text.strip().splitlines():
        program_name, *arguments = shlex.split(line)
        assert program_name == "kcontrol"
        ran = run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=PATIENCE_S)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    newest = {}
    for message in read_topics(settings.bootstrap_servers, ["sums"]):
        newest[message.key()] = json.loads(message.value())
    assert {row["customer"]: row["sum"] for row in newest.values()} == {
        f"c{customer}": FILES * sum(range(customer, LINES, CUSTOMERS)) for customer in range(CUSTOMERS)
    }
    told = run_kcontrol("status", "orders", "--json", env=env, timeout_s=PATIENCE_S)
    [waiting] = json.loads(told.stdout)["inputs"]
    assert (waiting["input"], waiting["waiting"], waiting["unasked"]) == ("lines", 0, "")
    (spool / "part-1.ndjson").write_text("")
    broken = run_kcontrol("verify", "orders.py", env=env, cwd=tmp_path, timeout_s=PATIENCE_S)
    assert broken.returncode != 0
    assert str(spool) in broken.stdout + broken.stderr
