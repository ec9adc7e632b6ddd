"""Input topics: what is there, and the ranges of offsets that steps read."""
