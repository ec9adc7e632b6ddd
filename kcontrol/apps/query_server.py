"""The server that answers questions and nothing else, for as long as its Spark lives."""

from __future__ import annotations

import asyncio

from kcontrol.adapters.http.app import make_query_app
from kcontrol.adapters.http.listener import Listener
from kcontrol.adapters.spark.session.jvm_life import ASK_EVERY_S, JvmLife
from kcontrol.apps.pipeline_tables import PipelineTables
from kcontrol.errors import SparkLostError

SILENCE_S = 120.0
"""A JVM that says nothing for so long hangs."""


async def serve_questions(listener: Listener, tables: PipelineTables) -> None:
    """Answer until the listener is stopped or this is cancelled. Raises SparkLostError when the JVM is gone, or was ended
    because it can't be had away from a question that nobody waits for any more."""
    life = JvmLife(tables.spark, SILENCE_S)
    app = make_query_app(tables.answer, listener.options.limits, listener.options.token)
    serving, watching = (
        asyncio.create_task(listener.serve(app)),
        asyncio.create_task(until_lost(life, tables)),
    )
    try:
        await asyncio.wait((serving, watching), return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, watching):
            if task.done():
                task.result()
    finally:
        life.close()
        for task in (serving, watching):
            task.cancel()
        await asyncio.gather(serving, watching, return_exceptions=True)


async def until_lost(life: JvmLife, tables: PipelineTables) -> None:
    """Raises SparkLostError once no question can be answered any more, and ends the JVM, on which a thread may still wait."""
    while True:
        if wrong := tables.stuck or life.wrong():
            life.kill()
            raise SparkLostError(f"{wrong}; start kcontrol query-server again")
        await asyncio.sleep(ASK_EVERY_S)
