"""What is kept of regions as bytes: Avro in single-object encoding, as all records. No schema is put into these topics: a
reader knows every version that was released before it, and says so where it meets a newer one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from kcontrol.core.regions.records import RegionAsked, RegionRecord, region_key
from kcontrol.errors import UnknownRecordError
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, record_bytes, record_of
from kcontrol.wire.schemas import Schema, current_schemas, released_schemas

ASKED_CLASSES: Mapping[str, type] = {cls.__name__: cls for cls in get_args(RegionAsked)}
REGION_CLASSES: Mapping[str, type] = {
    **ASKED_CLASSES,
    **{cls.__name__: cls for cls in get_args(RegionRecord)},
}


def region_bytes(record: RegionAsked | RegionRecord) -> bytes:
    return record_bytes(record, current_schemas()[type(record).__name__])


def region_pair(record: RegionAsked | RegionRecord) -> tuple[bytes, bytes]:
    """Key and value."""
    return region_key(record).encode(), region_bytes(record)


def region_record(data: bytes, where: str) -> Any:
    """One of `RegionAsked | RegionRecord`, of whatever version. where: topic and offset.

    Raises UnknownRecordError: nothing that this version knows, whole or not. DamagedRecordError.
    """
    written = _schemas().get(data[len(MAGIC) : HEADER_BYTES]) if data.startswith(MAGIC) else None
    if written is None:
        raise UnknownRecordError(
            f"{where} is no record of a region that this version of kcontrol can read: something else has written it, or a "
            "newer version"
        )
    return record_of(data, written, current_schemas()[written.name], REGION_CLASSES[written.name], where)


@cache
def _schemas() -> Mapping[bytes, Schema]:
    """By fingerprint."""
    versions = released_schemas()
    return {schema.fingerprint: schema for name in REGION_CLASSES for schema in versions[name]}
