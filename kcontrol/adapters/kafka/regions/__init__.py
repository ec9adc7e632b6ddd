"""Regions in Kafka: what people want of them, and a log of each that one controller at a time writes (decision 138)."""
