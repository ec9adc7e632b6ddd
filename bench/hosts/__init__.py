"""How long a placed pipeline stands still when the host of its node dies."""
