"""The shells around the cores: what a coordinator and a node await, in which order, and the ports they need
for it."""
