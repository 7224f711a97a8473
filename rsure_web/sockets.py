"""Addresses of the sockets: `websocket_urlpatterns` of every application that has consumers."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

websocket_urlpatterns: list[Any] = []
for _name in ("apps.runs.urls", "apps.imagery.urls"):
    if find_spec(_name.rpartition(".")[0]) and find_spec(_name):
        websocket_urlpatterns += getattr(import_module(_name), "websocket_urlpatterns", [])
