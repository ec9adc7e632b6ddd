"""Where Kafka is, from options, the environment and kcontrol.toml."""
