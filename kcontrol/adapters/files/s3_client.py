"""botocore, which is there only where it was asked for: one client for each process, and its errors as kcontrol's.

Credentials, region and endpoint are found as AWS's clients find them. Of what a server says its code alone is told: messages
may name users and keys.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from kcontrol.errors import ConfigurationError, InputGoneError, InputRefusedError, RetriableError

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0
"""For the beginning of an answer, and for each piece of it."""
ATTEMPTS = 3
"""At one request, within some seconds; steps and watchers try again themselves."""

_CHANGED = "is another object than its steps have read, or was listed for them: its ETag is other"
_ABSENT = {
    "NoSuchKey": "is not there",
    "NoSuchBucket": "is not there: there is no such bucket",
    "404": "is not there",
}
_PASSING = ("SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable")

_lock = threading.Lock()
_clients: list[Any] = []


def load_botocore() -> Any:
    """The library. Raises ConfigurationError: it is not installed."""
    try:
        import botocore.config
        import botocore.exceptions
        import botocore.parsers
        import botocore.session
    except ImportError as error:
        raise ConfigurationError(
            "reading files in S3 needs botocore, which is not installed: pip install 'kcontrol[s3]'"
        ) from error
    return botocore


def forget_client() -> None:
    """The next one looks for its credentials again, as they may be others by now."""
    with _lock:
        _clients.clear()


@contextmanager
def asking(uri: str) -> Iterator[Any]:
    """A client of S3, for what is asked of this object or prefix.

    Raises InputGoneError: it is not there, or is another one; InputRefusedError: it may not be read with these credentials.
    ConfigurationError: there
    are no credentials, or what is set for the client is of no use. RetriableError: the store does not give it now.
    """
    botocore = load_botocore()
    errors = botocore.exceptions
    client: Any = None
    try:
        client = _client()
        yield client
    except errors.ClientError as error:
        raise _told(uri, error.response) from error
    except (errors.NoCredentialsError, errors.PartialCredentialsError) as error:
        forget_client()
        raise ConfigurationError(
            f"{uri} can't be read without credentials, and none were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or AWS_PROFILE, or give the host a role"
        ) from error
    except (
        *(errors.ConnectionError, errors.HTTPClientError, errors.IncompleteReadError),
        *(
            errors.CredentialRetrievalError,
            errors.MetadataRetrievalError,
            botocore.parsers.ResponseParserError,
        ),
    ) as error:
        raise RetriableError(f"{uri}: {server_of(client)} gives no answer: {type(error).__name__}") from error
    except (errors.BotoCoreError, ValueError) as error:
        forget_client()
        raise ConfigurationError(
            f"{uri} can't be asked for, because of what AWS's files or variables set: {type(error).__name__}"
        ) from error


def _client() -> Any:
    with _lock:
        if not _clients:
            botocore = load_botocore()
            config = botocore.config.Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
                response_checksum_validation="when_required",
            )
            _clients.append(botocore.session.get_session().create_client("s3", config=config))
        return _clients[0]


def _told(uri: str, answer: Any) -> Exception:
    code = str(answer.get("Error", {}).get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status == HTTPStatus.PRECONDITION_FAILED or code == "PreconditionFailed":
        return InputGoneError(f"{uri} {_CHANGED}")
    if status == HTTPStatus.NOT_FOUND:
        return InputGoneError(f"{uri} {_ABSENT.get(code, 'is not there')}")
    if (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR
        or status == HTTPStatus.TOO_MANY_REQUESTS
        or code in _PASSING
    ):
        return RetriableError(f"{uri}: S3 answers {status} {code}")
    if code == "InvalidObjectState":
        return InputGoneError(f"{uri} is archived, and must be restored to be read")
    # What is refused may be allowed with other credentials, of which no running client would hear.
    forget_client()
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED) or "Token" in code:
        return InputRefusedError(
            f"{uri} may not be read with these credentials: S3 answers {status} {code}; they need s3:GetObject, and "
            "s3:ListBucket of the bucket, without which an object that is not there is refused so, too"
        )
    return InputGoneError(f"{uri}: S3 answers {status} {code}")


def server_of(client: Any) -> str:
    """For people: host and port alone."""
    parts = urlsplit("" if client is None else client.meta.endpoint_url)
    return "S3" if not parts.hostname else f"S3 at {parts.hostname}{f':{parts.port}' if parts.port else ''}"
