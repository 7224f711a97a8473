"""Floor 4: the task-tool reliability prior: append-only events, versions, estimates."""
