"""What looks after regions, without Kafka."""
