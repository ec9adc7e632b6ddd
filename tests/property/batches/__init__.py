"""The record batch codec and its digests."""
