"""`kcontrol operator`: custom resources in Kubernetes, carried out in Kafka and shown again."""
