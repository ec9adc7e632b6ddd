"""A real Apache Kafka of one node or more, from its published jars, for machines that have Python and Java and nothing else."""

from kcontrol.adapters.kafka.embedded.broker import EmbeddedBroker
from kcontrol.adapters.kafka.embedded.cluster import EmbeddedCluster
from kcontrol.adapters.kafka.embedded.java import Java, find_java

__all__ = ["EmbeddedBroker", "EmbeddedCluster", "Java", "find_java"]
