"""What it takes to ask about the state of all nodes while they make steps."""
