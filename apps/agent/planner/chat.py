"""Chat endpoints that speak the OpenAI protocol, as planners need them: one JSON object for a conversation.

Servers differ. Some refuse ``response_format: json_schema`` and take ``json_object`` or none at all; some stop in the middle of
the object; some write a tool call into the text. All of it is handled here, and nothing that is incomplete is ever patched up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from apps.core.deadline import Deadline
from apps.core.errors import ModelError

MAX_REPLY_BYTES = 2_000_000
# How the answer's form is asked for, strictest first; a server that refuses one is asked by the next.
FORMATS = ("json_schema", "json_object", "text")


class ChatSettings(BaseModel):
    """Where the model is. Injected; nothing is read from the environment here."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    base_url: str = Field(min_length=1, description="up to and with /v1")
    model: str = Field(min_length=1)
    api_key: SecretStr = SecretStr("")
    timeout_s: float = Field(default=60.0, gt=0)
    max_tokens: int = Field(default=4096, ge=64)
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model said. ``is_cut_off``: it ran into its limit of tokens, so the text is not whole."""

    text: str
    is_cut_off: bool = False
    tokens: int = 0


class ChatProvider(Protocol):
    """One conversation in, one reply out. ModelError MODEL_UNREACHABLE where there is none."""

    name: str

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], max_tokens: int) -> ChatReply: ...


class HttpChatProvider:
    """A chat endpoint over HTTP."""

    def __init__(self, settings: ChatSettings):
        self.settings, self.name = settings, settings.model
        self.format = FORMATS[0]

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], max_tokens: int) -> ChatReply:
        """The reply; tries the next weaker response format where the server refuses one, and remembers it."""
        while True:
            status, body = self._post(self._request(messages, schema, max_tokens))
            if status == 200:
                return read_reply(body)
            weaker = FORMATS[FORMATS.index(self.format) + 1 :]
            if status in (400, 404, 422, 501) and weaker and _is_about_format(body):
                self.format = weaker[0]
                continue
            raise ModelError(f"The planning model answered with HTTP {status}.", code="MODEL_UNREACHABLE")

    def _request(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        s = self.settings
        body: dict[str, Any] = {
            "model": s.model,
            "messages": [dict(m) for m in messages],
            "temperature": s.temperature,
            "max_tokens": max_tokens,
        }
        if s.seed is not None:
            body["seed"] = s.seed
        if self.format == "json_schema":
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "plan", "schema": dict(schema), "strict": False},
            }
        else:
            # into the last message: some servers take no system message, or only the first
            last = body["messages"][-1]
            last["content"] += "\nAnswer with one JSON object of this schema:\n" + json.dumps(dict(schema))
            if self.format == "json_object":
                body["response_format"] = {"type": "json_object"}
        return body

    def _post(self, body: dict[str, Any]) -> tuple[int, bytes]:
        import httpx  # only who uses a chat model loads its client

        key = self.settings.api_key.get_secret_value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = self.settings.base_url.rstrip("/") + "/chat/completions"
        try:
            with (
                Deadline(self.settings.timeout_s) as deadline,
                httpx.Client(timeout=self.settings.timeout_s, follow_redirects=False) as client,
                client.stream("POST", url, json=body, headers=headers, extensions=deadline.extensions) as response,
            ):
                data = bytearray()
                for piece in response.iter_bytes():
                    data += piece
                    if deadline.is_over:
                        raise httpx.ReadTimeout("the answer took too long")
                    if len(data) > MAX_REPLY_BYTES:
                        raise ModelError("The planning model's answer is too long.", code="MODEL_UNREACHABLE")
                return response.status_code, bytes(data)
        except httpx.HTTPError as e:
            raise ModelError(f"The planning model cannot be reached ({type(e).__name__}).", code="MODEL_UNREACHABLE") from e


def _is_about_format(body: bytes) -> bool:
    return re.search(rb"response_format|json_schema|json_object|grammar|schema", body[:20_000]) is not None


def read_reply(body: bytes) -> ChatReply:
    """The reply of a chat completion's body. ModelError MODEL_UNREACHABLE for a body that is none."""
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message = choice["message"]
    except (ValueError, KeyError, IndexError, TypeError) as e:
        raise ModelError("The planning model's answer is no chat completion.", code="MODEL_UNREACHABLE") from e
    text = message.get("content") or ""
    if isinstance(text, list):
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    if not text.strip() and message.get("tool_calls"):
        text = str(message["tool_calls"][0].get("function", {}).get("arguments", ""))
    usage = data.get("usage") or {}
    tokens = usage.get("total_tokens", 0)
    return ChatReply(str(text), choice.get("finish_reason") == "length", tokens if isinstance(tokens, int) else 0)


def json_object(text: str) -> dict[str, Any] | None:
    """The one JSON object of a reply: bare, fenced, after thoughts, or inside a tool call written as text (of several, the last).

    None where there is no whole one: of an object that was cut off or is broken nothing is used, nor what lies inside of it.
    """
    text = re.sub(r"<think>.*?</think>", " ", text, flags=re.DOTALL)
    fenced: list[str] = re.findall(r"```(?:json|tool_call)?\s*\n(.*?)```", text, flags=re.DOTALL)
    rest = fenced[-1] if fenced else text
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    found: dict[str, Any] | None = None
    at = rest.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(rest, at)
        except (ValueError, RecursionError):
            return None
        if isinstance(value, dict):
            found = value
        at = rest.find("{", end)
    return _unwrapped(found) if found is not None else None


def _unwrapped(value: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a tool call that was written as text."""
    for key in ("arguments", "parameters"):
        inner = value.get(key)
        if ("name" in value or "function" in value) and isinstance(inner, str):
            return json_object(inner) or {}
        if "name" in value and isinstance(inner, dict):
            return inner
    function = value.get("function")
    return _unwrapped(function) if isinstance(function, dict) else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
