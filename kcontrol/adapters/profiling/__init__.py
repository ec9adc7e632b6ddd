"""Where a node's time and memory go, on demand: of its Python driver, and of Spark's JVM beside it."""
