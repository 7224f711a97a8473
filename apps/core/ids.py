"""Identifiers: random, and ordered in time so that database indexes stay compact (UUID version 7, RFC 9562)."""

from __future__ import annotations

import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """A UUID version 7: 48 bits of Unix milliseconds, then random bits."""
    raw = (int(time.time() * 1000) & (2**48 - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    raw = raw & ~(0xF << 76) | 0x7 << 76
    raw = raw & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=raw)


def new_id() -> str:
    """A fresh identifier as text (36 characters)."""
    return str(uuid7())
