"""Digests: SHA-256 as ``sha256:<hex>``, over bytes, files or canonical JSON (RFC 8785 in spirit: sorted keys, no blanks)."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, BinaryIO

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    return bool(_DIGEST.fullmatch(text))


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_stream(stream: BinaryIO) -> str:
    h = hashlib.sha256()
    while chunk := stream.read(1 << 20):
        h.update(chunk)
    return "sha256:" + h.hexdigest()


def digest_file(path: Path) -> str:
    with path.open("rb") as f:
        return digest_stream(f)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks; NaN and infinities are refused (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=str)


def digest_json(value: Any) -> str:
    return digest_bytes(canonical_json(value).encode())
