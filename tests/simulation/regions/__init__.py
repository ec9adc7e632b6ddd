"""Regions under a seeded scheduler: their state machine (`schedule`), and drains that go down graphs of pipelines
(`waves`)."""
