"""Counters and histograms as plain slots, and the events worth a log line.

Counting costs one addition on the hot path; turning the counts into
Prometheus text or JSON lines is the work of the doors (`servers`, `app`).
"""
