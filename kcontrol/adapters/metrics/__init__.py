"""What Prometheus is told: one catalogue, and what fills it in servers, coordinators and nodes."""
