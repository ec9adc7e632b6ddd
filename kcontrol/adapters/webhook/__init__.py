"""A target that takes records by HTTP: each part of a committed step is a POST, at least once."""
