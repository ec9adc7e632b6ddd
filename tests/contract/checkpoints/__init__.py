"""What a checkpoint store promises, on a directory and on a real S3 server alike."""
