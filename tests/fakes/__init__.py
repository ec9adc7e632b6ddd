"""In-memory implementations of the ports, held to the same contract as the real ones by tests/contract."""
