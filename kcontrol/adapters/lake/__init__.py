"""Tables that are files (Delta Lake, Parquet) as targets of committed steps. Knows nothing of Spark or Kafka."""
