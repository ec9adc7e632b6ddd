"""The Avro schema of every record in Kafka, as data of the package `kcontrol.schemas`; read by `kcontrol.wire.schemas`."""
