"""Kubernetes' API server: objects that are read and written, and news of them."""
