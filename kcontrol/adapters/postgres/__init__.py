"""PostgreSQL as a target of committed steps. Knows tables and rows, and nothing of Spark or Kafka."""
