"""How property tests run: no deadline for one example, because a busy machine is no failure;
a failing one can be run again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kcontrol", deadline=None, print_blob=True)
settings.load_profile("kcontrol")
