"""Rows that people push into inputs, each request once, whoever writes it and whoever dies (decision 108)."""
