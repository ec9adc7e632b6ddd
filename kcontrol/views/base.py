"""The base of what people and programs are told of a pipeline."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Facts(BaseModel):
    """A value that the command line prints, and the HTTP server answers, as JSON."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)
