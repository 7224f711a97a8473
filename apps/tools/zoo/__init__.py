"""The model zoo: what detectors and classifiers there are, for what they were made, and how they are loaded."""
