"""Output topics: records written inside the transaction of a step."""
