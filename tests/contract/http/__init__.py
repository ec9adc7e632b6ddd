"""The HTTP interface, on a cluster in memory and on a real one."""
