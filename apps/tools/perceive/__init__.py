"""The tool ``perceive``."""
