"""The parts of an agent's process, without Kafka."""
