"""The agents of a cluster on a real broker, as processes that are killed and frozen."""
