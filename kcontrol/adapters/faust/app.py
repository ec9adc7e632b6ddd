"""The Faust application of the coordinators: who is assigned which partition of the
control topic, and its records, fast.

Faust is used for what it is good at, membership and delivery. Its offsets don't matter here: each session
folds the partition itself and skips what it has seen. The settings below differ from Faust's defaults for
these reasons: its session timeout of 60 s would be the takeover time; leader topics, tables and the web
server are not needed.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import faust
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

from kcontrol.adapters.faust.assignor import DEFAULT_SETTLE_S, SettledAssignor
from kcontrol.adapters.kafka.client.options import Security, security_of
from kcontrol.settings.cluster import ClusterSettings

HEARTBEAT_PARTS = 3
"""Heartbeats within one session timeout, at least."""

LONGEST_HEARTBEAT_S = 0.25
"""By its next heartbeat a member learns that another one has gone."""

REQUEST_PARTS = 2
"""Faust gives a broker that hangs up after so many session timeouts. It must be longer than one: joining the
group waits for members that are gone. What Faust does not deliver meanwhile, sessions read for themselves."""

MIN_SESSION_TIMEOUT_S = 6.0
"""The broker's own default for `group.min.session.timeout.ms`."""


def make_app(
    group: str,
    settings: ClusterSettings,
    loop: asyncio.AbstractEventLoop,
    session_timeout_s: float,
    instance: str | None,
    client_id: str,
    datadir: Path,
    settle_s: float = DEFAULT_SETTLE_S,
) -> faust.App:
    """A Faust app that consumes nothing yet.

    instance: name of a static member (KIP-345): a process that is started again under the same name gets its
    partitions back at once instead of after the session timeout. client_id: by which others can tell this
    member from those of other processes. settle_s: it takes nothing from others before it has been there for so
    long.
    """
    options: dict[str, Any] = {"consumer_group_instance_id": instance} if instance else {}
    credentials = _credentials(security_of(settings))
    if credentials is not None:
        options["broker_credentials"] = credentials
    return faust.App(
        group,
        broker=[f"aiokafka://{server.strip()}" for server in settings.bootstrap_servers.split(",")],
        loop=loop,
        store="memory://",
        datadir=str(datadir),
        processing_guarantee="at_least_once",
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        broker_session_timeout=session_timeout_s,
        broker_client_id=client_id,
        broker_heartbeat_interval=min(session_timeout_s / HEARTBEAT_PARTS, LONGEST_HEARTBEAT_S),
        broker_request_timeout=session_timeout_s * REQUEST_PARTS,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="latest",
        stream_wait_empty=False,
        PartitionAssignor=partial(SettledAssignor, settle_s=settle_s),
        **options,
    )


def _credentials(security: Security) -> SASLCredentials | OAuthCredentials | SSLCredentials | None:
    if security.token_provider is not None:
        return OAuthCredentials(oauth_cb=security.token_provider, ssl_context=security.ssl_context)
    if security.mechanism:
        return SASLCredentials(
            username=security.username,
            password=security.password,
            ssl_context=security.ssl_context,
            mechanism=security.mechanism,
        )
    return SSLCredentials(context=security.ssl_context) if security.ssl_context is not None else None


class Worker(faust.Worker):
    """Faust's worker as a guest in our process: it changes neither its title, its
    logging nor its standard streams."""

    def __init__(self, app: faust.App, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            app,
            loop=loop,
            quiet=True,
            redirect_stdouts=False,
            override_logging=False,
            loglevel=logging.WARNING,
        )
        self.spinner = None

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Faust calls this with its own title; the command line of the process says more."""

    async def on_first_start(self) -> None:
        await self.default_on_first_start()
