"""What Spark keeps on disk between steps: its formats, pinned, linked, read and written."""
