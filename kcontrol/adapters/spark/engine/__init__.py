"""The engine of a node: runs steps, holds them to the log, saves and restores state."""
