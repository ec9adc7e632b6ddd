"""Recorded steps run again: what differs, and what becomes of the records that they give."""
