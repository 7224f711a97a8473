"""Floor 8: what people say of observations: the queue, verdicts, undo."""
