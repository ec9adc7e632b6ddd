"""What the two logs say: keys of records, and the folds of what was read."""
