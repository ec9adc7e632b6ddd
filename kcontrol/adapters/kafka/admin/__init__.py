"""What is asked of the cluster itself: brokers, topics, groups, rights, and how safe they are."""
