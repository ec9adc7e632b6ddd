"""The process of `kcontrol agent`: the core's machine on Kafka, a disk that remembers, and the processes of a
host."""
