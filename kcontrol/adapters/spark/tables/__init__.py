"""A pipeline's state and outputs as tables of Spark SQL, for whoever asks about them."""
