"""What makes up a step: when one is due, which offsets it reads, what it may be compared by."""
