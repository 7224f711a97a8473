"""Planner back ends: the offline parser of English questions, the form that it fills, and chat models."""
