"""What users import to produce and consume, on librdkafka. Nothing is here yet."""
