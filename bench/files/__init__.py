"""kcontrol's input of files against Spark's own file source, on the same files."""
