"""The side channel between the driver and Spark's other processes: what they ask, say, and are held to."""
