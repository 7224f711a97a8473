"""The run's socket: authenticate, replay, forward. It carries hints and event headers, never big things."""

from __future__ import annotations

from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from apps.core.errors import UserError
from apps.runs import selectors
from apps.runs.models import Run
from apps.runs.sockets import group_of

REPLAY_LIMIT = 1000
CLOSE_NOT_FOUND = 4404


class RunConsumer(AsyncJsonWebsocketConsumer):
    """``/ws/runs/<id>/``: sends the hint {"seq": n}; answers {"seq": n} with the newest number and the headers that follow n."""

    run_id: str = ""

    async def connect(self) -> None:
        user = self.scope.get("user")
        run_id = self.scope["url_route"]["kwargs"]["run_id"]
        if user is None or not user.is_authenticated or not await self._may_see(user, run_id):
            await self.accept()
            await self.close(code=CLOSE_NOT_FOUND)
            return
        self.run_id = str(run_id)
        await self.channel_layer.group_add(group_of(self.run_id), self.channel_name)
        await self.accept()
        await self.send_json({"seq": await self._last_seq()})

    async def disconnect(self, code: int) -> None:
        if self.run_id:
            await self.channel_layer.group_discard(group_of(self.run_id), self.channel_name)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        seq = content.get("seq") if isinstance(content, dict) else None
        if not isinstance(seq, int) or isinstance(seq, bool) or not -1 <= seq <= 2**31:
            await self.send_json({"error": 'Only {"seq": number} is understood here.'})
            return
        await self.send_json({"seq": await self._last_seq(), "events": await self._headers(max(0, seq))})

    async def run_more(self, message: dict[str, Any]) -> None:
        await self.send_json({"seq": message["seq"]})

    @database_sync_to_async
    def _may_see(self, user: Any, run_id: Any) -> bool:
        try:
            selectors.access_run_by_id(user, run_id)
        except UserError:
            return False
        return True

    @database_sync_to_async
    def _last_seq(self) -> int:
        return Run.objects.values_list("last_seq", flat=True).get(pk=self.run_id)

    @database_sync_to_async
    def _headers(self, after: int) -> list[dict[str, Any]]:
        rows = Run.objects.get(pk=self.run_id).events.filter(seq__gt=after).order_by("seq")
        return [{"seq": s, "type": t} for s, t in rows.values_list("seq", "type")[:REPLAY_LIMIT]]
