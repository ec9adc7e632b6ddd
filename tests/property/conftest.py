"""How property tests run: no deadline for one example, because a busy machine is no failure; a failing one can be run again.

Each run draws others, so few are enough for each; HYPOTHESIS_PROFILE=heavy takes many.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("kcontrol", deadline=None, print_blob=True, max_examples=40)
settings.register_profile("heavy", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kcontrol"))
