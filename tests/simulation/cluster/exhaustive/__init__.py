"""Every interleaving of a small cluster: breadth-first search over states, each made by the real functions of the core.

`state.py` is what a state is, `moves.py` what may happen next, `search.py` the search, `worlds.py` which small clusters there
are. Decision 167 says what is covered and what is not.
"""
