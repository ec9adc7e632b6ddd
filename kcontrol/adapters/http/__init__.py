"""The REST interface: every write is a control record in Kafka, every read comes from a projection of the
topics."""
