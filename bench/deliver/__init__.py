"""`kcontrol deliver` against Spark's foreachBatch: the same rows of Kafka into the same table, exactly once on both sides."""
