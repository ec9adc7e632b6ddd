"""A server gives way: its own nice value, and that of its session if it leads one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kcontrol.apps.supervisor.priority import AUTOGROUP
from tests.support.patience import HANG_S

PROGRAM = """
import json, os
from kcontrol.apps.supervisor.priority import AUTOGROUP, give_way

def session():  # Processes older than the first session of the machine are in no group: the file is then empty.
    words = AUTOGROUP.read_text().split()
    return int(words[-1]) if words else None

before = (os.nice(0), session())
give_way(7)
print(json.dumps([before, (os.nice(0), session())]))
"""


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not group processes by session")
@pytest.mark.parametrize("leads", [True, False])
def test_a_process_that_leads_its_session_lowers_that_too(leads: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
        timeout=HANG_S,
    )
    (nice, group), (nice_after, group_after) = json.loads(done.stdout)
    assert nice_after == min(19, nice + 7)
    assert group_after == (7 if leads and group is not None else group)
