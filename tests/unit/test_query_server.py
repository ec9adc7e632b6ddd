"""When the server of questions ends by itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from kcontrol.adapters.spark.session.jvm_life import JvmLife
from kcontrol.apps.pipeline_tables import PipelineTables
from kcontrol.apps.query_server import until_lost
from kcontrol.errors import SparkLostError


@dataclass
class _Life:
    said: str = ""
    killed: bool = False

    def wrong(self) -> str:
        return self.said

    def kill(self) -> None:
        self.killed = True


@dataclass
class _Tables:
    stuck: str = ""


@pytest.mark.parametrize(("stuck", "wrong"), [("a question goes on", ""), ("", "the JVM has ended")])
def test_a_server_that_can_answer_nobody_ends_spark_and_says_why(stuck: str, wrong: str) -> None:
    life = _Life(wrong)
    with pytest.raises(SparkLostError, match=f"{stuck or wrong}; start kcontrol query-server again"):
        asyncio.run(until_lost(cast(JvmLife, life), cast(PipelineTables, _Tables(stuck))))
    assert life.killed
