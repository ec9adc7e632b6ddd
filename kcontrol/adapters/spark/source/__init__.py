"""The streaming data source: the input of one step, read by Spark's tasks."""
