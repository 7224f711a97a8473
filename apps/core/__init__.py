"""Floor 1: plain Python shared by every floor. No Django, no rasterio, no torch."""
