"""TODO replicas."""
