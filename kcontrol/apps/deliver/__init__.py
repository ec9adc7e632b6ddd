"""Deliveries: the process that follows a pipeline's log of steps and brings a target outside of Kafka in line with it."""
