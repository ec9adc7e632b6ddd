"""What Spark keeps on disk between steps: pinned, linked, read and begun anew."""
