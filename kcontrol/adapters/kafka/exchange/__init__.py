"""Rows from node to node within a step: topics of exchanges, what is written to them and read from them."""
