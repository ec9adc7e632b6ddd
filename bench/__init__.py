"""The whole path measured against Spark's own Kafka source and sink: `python -m bench`."""
