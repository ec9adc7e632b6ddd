"""The transaction of a step, owned by the coordinator."""
