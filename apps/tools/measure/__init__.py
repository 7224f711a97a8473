"""The tool ``measure``."""
