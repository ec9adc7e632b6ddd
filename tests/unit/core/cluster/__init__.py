"""The cluster's value: worked examples, rules entry by entry, schedulers against exhaustive search."""
