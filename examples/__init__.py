"""Pipelines that run, and the demonstration that kills them: `python -m examples.demo`."""
