"""The tool ``execute``."""
