"""One process that has imported what Spark's Python processes import, and forks them when Spark starts one."""
