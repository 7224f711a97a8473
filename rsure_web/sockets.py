"""Addresses of the sockets."""

from apps.runs.urls import websocket_urlpatterns

__all__ = ["websocket_urlpatterns"]
