"""Measuring against labels: recorded trajectories, labelled cases, the fault bench."""
