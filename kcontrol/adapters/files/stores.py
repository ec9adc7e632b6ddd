"""Where the bytes of an input are: on a disk of this host, or at a URL."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from kcontrol.adapters.files.bytes_of import opened
from kcontrol.adapters.files.listing import ListedFile, listed
from kcontrol.adapters.files.newlines import Readable
from kcontrol.adapters.files.urls import opened_url
from kcontrol.wire.files import FileAddress, UrlVersion, version_in


class Store(Protocol):
    """The files of one address."""

    def listed(self) -> tuple[ListedFile, ...]:
        """As they are now, one after the other. Raises as `listing.listed`."""
        ...

    def opened(self, path: str) -> AbstractContextManager[Readable]:
        """One of them. Raises InputGoneError, OSError."""
        ...


class Disk:
    """Files of this host."""

    def __init__(self, address: FileAddress) -> None:
        self._address = address

    def listed(self) -> tuple[ListedFile, ...]:
        """As Store's."""
        return listed(self._address)

    def opened(self, path: str) -> AbstractContextManager[Readable]:
        """As Store's."""
        return opened(path)


class OneUrl:
    """One version of what a URL gives; that it is the one that is there, each answer is asked."""

    def __init__(self, url: str, version: UrlVersion) -> None:
        self._url, self._version = url, version

    def listed(self) -> tuple[ListedFile, ...]:
        """As Store's."""
        return (ListedFile(self._url, 0, self._version.size_bytes),)

    def opened(self, path: str) -> AbstractContextManager[Readable]:
        """As Store's."""
        return opened_url(path, self._version)


def store_of(address: FileAddress, topic_id: str) -> Store:
    """topic_id: what stands in its place. Raises InputGoneError for one that says nothing of a URL's version."""
    return OneUrl(address.path, version_in(topic_id)) if address.is_url else Disk(address)
