"""Producers: records to topics, with receipts, back-pressure and transactions."""
