"""Logs that were written once and must be understood for ever."""
