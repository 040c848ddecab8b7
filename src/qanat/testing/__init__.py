"""What users import in their tests: embedded broker, pytest fixtures, fault injection.

Nothing is here yet.
"""
