"""A user's queries: bound to inputs and outputs, their plans looked at, what can't be right refused."""
