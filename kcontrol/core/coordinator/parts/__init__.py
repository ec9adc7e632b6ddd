"""What a coordinator remembers, in parts: each is frozen, lies in a module of its own, and is changed only by its own methods.

A method gives back what the part is after something has happened. Who decides that it has is elsewhere.
"""
