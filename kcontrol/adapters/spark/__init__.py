"""The Spark engine: runs the queries of one node, one micro-batch a step, and writes
inside the step's transaction."""
