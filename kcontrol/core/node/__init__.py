"""One node of a pipeline: its table of states, and what it decides on each event."""
