"""A pipeline's layout changed while it makes steps: how long it makes none, and what of."""
