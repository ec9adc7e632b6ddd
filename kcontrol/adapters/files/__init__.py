"""Inputs whose lines are in files that others write."""
