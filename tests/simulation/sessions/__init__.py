"""The real sessions (kcontrol/sessions) under a seeded event loop, on the simulated broker."""
