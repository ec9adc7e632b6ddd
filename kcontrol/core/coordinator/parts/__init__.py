"""What a coordinator remembers, in parts: each is frozen, and changed only by its own methods.

What belongs together is one part, and lies in a module of its own. A method gives back what the part is after
something has happened. Who decides that it has is elsewhere.
"""
