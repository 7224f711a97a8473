"""Importers: what other agents recorded, as observations of protocol version 1 as far as the record allows."""
