"""The cluster as a value: one ordered log, and a replica that is a pure function of it.

`entries` is what the log holds, `model` the value, `replica.apply` what one more entry makes of it; `duties`
what an agent has to say and `work` what it has to run, both functions of the newest value, so that nothing is
lost when entries were skipped or read late. `liveness` judges who is silent by the order of beats, never by a
clock. `agent` puts these together as one machine without I/O, which the real agent and the simulator drive
alike.
"""
