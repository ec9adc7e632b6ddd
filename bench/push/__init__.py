"""`python -m bench.push`: what rows that are pushed over HTTP take."""
