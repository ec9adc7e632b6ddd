"""One kcontrol run: the processes that it starts, watches and starts again."""
