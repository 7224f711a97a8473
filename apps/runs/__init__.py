"""Floor 7: questions, runs, their append-only events; the ports assembled; tasks, sockets and the run page."""
