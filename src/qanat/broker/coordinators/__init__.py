"""TODO coordinators."""
