"""How records look in Kafka: Avro bytes, keys, topic names and partitions, and the JSON that people see. No
I/O."""
