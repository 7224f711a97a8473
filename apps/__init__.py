"""The applications of RSure Web; each floor imports only from floors below it (docs/architecture.md)."""
