"""Hands questions on to a query server."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from kcontrol.adapters.http.access import read_token_text
from kcontrol.adapters.http.problems import Problem
from kcontrol.adapters.http.queries import QUERY_PATH, AskedElsewhereError
from kcontrol.errors import ConfigurationError
from kcontrol.requests.table_questions import QueryServerError, TableAnswer, TableQuestion, answer_of

MAX_ANSWER_BYTES = 256 << 20
_NOT_LET_IN = (401, 403, 421)
_SHORTER_S = 2.0
"""A question that is handed on ends so long before the request that asks it."""
_LONGER_S = 1.0
"""The query server keeps to a question's time by itself; it is given up only with the request that asks."""


class QueryClient:
    """One query server. url: its address, such as http://127.0.0.1:8481. token_file: with its token, if it has one.
    request_timeout_s: of the requests that ask.

    Raises ConfigurationError: that is no address, or the file holds no token.
    """

    def __init__(self, url: str, token_file: Path | None, request_timeout_s: float) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.path.strip("/")
            or parts.query
        ):
            raise ConfigurationError(f"--query-server {url!r}: give http://HOST:PORT")
        self._url = url.rstrip("/")
        self._token = None if token_file is None else read_token_text(token_file, "--query-token-file")
        self._most_s = request_timeout_s - _SHORTER_S

    async def ask(self, question: TableQuestion) -> TableAnswer:
        """Raises QueryServerError: it does not answer. AskedElsewhereError: it has answered with a problem."""
        return await asyncio.to_thread(self._ask, question)

    def _ask(self, question: TableQuestion) -> TableAnswer:
        timeout_s = min(question.timeout_s or self._most_s, self._most_s)
        asked = {"sql": question.sql, "step": question.step, "limit": question.rows, "timeout_s": timeout_s}
        request = urllib.request.Request(
            self._url + QUERY_PATH.replace("{pipeline}", quote(question.pipeline, safe="")),
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
            method="POST",
        )
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=self._most_s + _LONGER_S) as response:
                body = response.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise self._problem(error) from error
        except OSError as error:
            why = getattr(error, "reason", error)
            raise QueryServerError(f"the query server at {self._url} can't be reached: {why}") from error
        if len(body) > MAX_ANSWER_BYTES:
            raise QueryServerError(
                f"the query server at {self._url} answers with more than {MAX_ANSWER_BYTES:,} bytes"
            )
        return answer_of(json.loads(body))

    def _problem(self, error: urllib.error.HTTPError) -> Exception:
        if error.code in _NOT_LET_IN:
            return QueryServerError(
                f"the query server at {self._url} does not let this server ask ({error.code}): give its token with "
                "--query-token-file"
            )
        try:
            return AskedElsewhereError(Problem.model_validate_json(error.read(MAX_ANSWER_BYTES)))
        except ValidationError:
            return QueryServerError(f"what is at {self._url} is no query server: it answers {error.code}")
