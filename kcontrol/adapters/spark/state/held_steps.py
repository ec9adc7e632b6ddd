"""The steps to which a node's directory can be rolled back, told with every step without a look at the directory.

A look reads some two hundred names, in the thread that is to begin the next step. But a query that goes on adds a batch with
each step, and what Spark deletes for it follows from how many batches it retains.
"""

from __future__ import annotations

from kcontrol.adapters.spark.state.workdir import WorkDir


class HeldSteps:
    """Of one directory. What is remembered counts until its queries are stopped (`forget`)."""

    def __init__(self, workdir: WorkDir) -> None:
        self._workdir = workdir
        self._known: tuple[int, ...] = ()
        """The newest first; empty: a look is needed."""

    def forget(self) -> None:
        """The queries stop: the directory may be rolled back, or begun anew."""
        self._known = ()

    def steps(self, recording: int | None) -> tuple[int, ...]:
        """Newest first. recording: the step that Spark was let record last, if it is to count already; None: what is on disk.

        Raises OSError, and ConfigurationError for a version that is not known, where it looks.
        """
        if recording is None:
            return self._workdir.openable()
        if not self._known:
            listed = self._workdir.openable()
            self._known = listed if recording in listed else (recording, *listed)
        elif self._known[0] != recording:
            # Once it is recorded, Spark may delete the oldest.
            self._known = (recording, *self._known[: max(0, self._workdir.retained - 2)])
        return self._known
