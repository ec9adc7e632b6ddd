"""What the adapters are put together to: the processes, and the commands' use cases."""
