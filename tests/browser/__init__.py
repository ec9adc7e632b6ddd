"""The Console in a real browser, on the real server over a cluster in memory."""
