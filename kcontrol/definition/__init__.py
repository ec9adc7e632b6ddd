"""What a user defines: pipelines, their parts and limits, checked and resolved into the spec that is
submitted."""
