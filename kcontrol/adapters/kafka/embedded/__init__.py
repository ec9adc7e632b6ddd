"""A real Apache Kafka of one node or more, from its published jars, for machines that have
Python and Java and nothing else."""

from kcontrol.adapters.kafka.embedded.broker import EmbeddedBroker
from kcontrol.adapters.kafka.embedded.cluster import EmbeddedCluster

__all__ = ["EmbeddedBroker", "EmbeddedCluster"]
