"""A small registry that is filled at import and then frozen: what is in it is known before the first run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from apps.core.errors import FaultError

T = TypeVar("T")


class Registry(Generic[T]):
    """Name → thing. Adding a name twice, or after ``freeze``, is a FaultError; an unknown name is a KeyError."""

    def __init__(self, kind: str):
        self.kind = kind
        self._items: dict[str, T] = {}
        self._frozen = False

    def add(self, name: str, item: T) -> T:
        if self._frozen:
            raise FaultError(f"the registry of {self.kind} is frozen; {name!r} came too late")
        if name in self._items:
            raise FaultError(f"{self.kind} {name!r} is registered twice")
        self._items[name] = item
        return item

    def freeze(self) -> None:
        self._frozen = True

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            raise KeyError(f"no {self.kind} named {name!r}; known: {', '.join(sorted(self._items))}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[tuple[str, T]]:
        return list(self._items.items())
