"""How many units each job gets, and where they are: admission, growth, places; integers and sorted order
only."""
