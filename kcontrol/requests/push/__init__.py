"""Rows that people push into an input: read out of a body, checked against the input's schema, and given to whoever writes
them."""
