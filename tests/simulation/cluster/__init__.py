"""The cluster under a seeded scheduler: hosts with agents and node processes, one log, beats, snapshots,
users, and faults.

The agents are `core/cluster/agent.AgentMachine`, as the real ones are; only its shell is the simulator's.
"""
