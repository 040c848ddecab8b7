"""The metadata image, the controller's decisions, and the MetadataStore port.

Nothing is here yet.
"""
