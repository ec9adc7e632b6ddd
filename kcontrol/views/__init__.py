"""What anybody is shown of pipelines: read from the logs, by whoever asks."""
