"""Other stream processors on the bench's topics, exactly once: what their users have, beside what kcontrol gives.

All of it is optional: each peer says in one sentence what it lacks on this machine, and the others go on.
"""
