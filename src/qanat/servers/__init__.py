"""Thin doors: the Kafka protocol (a file per API), push frames, HTTP. Nothing is here yet."""
