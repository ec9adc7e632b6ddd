"""Where the bytes of an input are: on a disk of this host, at a URL, or in S3."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from kcontrol.adapters.files.bytes_of import opened
from kcontrol.adapters.files.listing import ListedFile, listed
from kcontrol.adapters.files.newlines import Readable
from kcontrol.adapters.files.objects import changed_object, listed_objects, object_version, opened_object
from kcontrol.adapters.files.urls import changed, opened_url, version_of
from kcontrol.wire.files import FileAddress, UrlVersion, version_in


class Store(Protocol):
    """The files of one address."""

    def listed(self) -> tuple[ListedFile, ...]:
        """As they are now, one after the other. Raises as `listing.listed`."""
        ...

    def opened(self, file: ListedFile) -> AbstractContextManager[Readable]:
        """One of them. Raises InputGoneError, OSError."""
        ...


class Disk:
    """Files of this host."""

    def __init__(self, address: FileAddress) -> None:
        self._address = address

    def listed(self) -> tuple[ListedFile, ...]:
        """As Store's."""
        return listed(self._address)

    def opened(self, file: ListedFile) -> AbstractContextManager[Readable]:
        """As Store's."""
        return opened(file.path)


class OneVersion:
    """One version of what a URL gives, also one of S3; that it is the one that is there, each answer is asked."""

    def __init__(self, address: FileAddress, version: UrlVersion) -> None:
        self._address, self._version = address, version

    def listed(self) -> tuple[ListedFile, ...]:
        """As Store's."""
        return (ListedFile(self._address.path, 0, self._version.size_bytes),)

    def opened(self, file: ListedFile) -> AbstractContextManager[Readable]:
        """As Store's."""
        open_ = opened_object if self._address.is_s3 else opened_url
        return open_(file.path, self._version)


class Objects:
    """What is below a prefix in S3. Each is read as the object that it was in the listing."""

    def __init__(self, address: FileAddress) -> None:
        self._address = address

    def listed(self) -> tuple[ListedFile, ...]:
        """As Store's."""
        return listed_objects(self._address)

    def opened(self, file: ListedFile) -> AbstractContextManager[Readable]:
        """As Store's."""
        return opened_object(file.path, UrlVersion(file.size_bytes, file.tag, ""))


def store_of(address: FileAddress, topic_id: str) -> Store:
    """topic_id: what stands in its place. Raises InputGoneError for one that says nothing of a URL's version."""
    if address.is_one_version:
        return OneVersion(address, version_in(topic_id))
    return Objects(address) if address.is_s3 else Disk(address)


def version_at(address: FileAddress) -> UrlVersion:
    """What a URL gives now. Raises as `urls.version_of`."""
    return object_version(address.path) if address.is_s3 else version_of(address.path)


def changed_version(address: FileAddress, was: UrlVersion, now: UrlVersion) -> str:
    """What of it is not as it was; '' if it is the same."""
    return (changed_object if address.is_s3 else changed)(address.path, was, now)
