"""Regions, one rule at a time."""
