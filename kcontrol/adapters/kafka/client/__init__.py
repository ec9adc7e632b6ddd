"""Kafka's protocol and what every client has: settings, connections, requests and answers, refusals and
rights."""
