"""Chaos for the cluster of agents: hosts, each an agent with all that it runs, that are killed, frozen and cut off."""
