"""The output of one step, written by Spark's tasks inside its transaction."""
