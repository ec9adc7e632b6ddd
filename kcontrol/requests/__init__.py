"""What people ask of a pipeline, recorded in its control topic, and what became of it."""
