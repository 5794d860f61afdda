"""Beds: one small interface over the three runtimes on which the same actors run."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.runtime.scheduler import LoopScheduler, SimScheduler
from actors.runtime.threaded import GeneratorTurns

LIMIT_S = 10


class Bed:
    """Actors of one body (a mixin with `on_receive`), by key."""

    base: tuple[type, ...] = (Actor,)

    def use(self, body: type[Any]) -> None:
        actor_class = type(body.__name__, (body, *self.base), {})

        def factory(key: str) -> Any:
            actor = actor_class()
            actor.bed, actor.name = self, key
            return actor

        self.prepare(factory)

    def prepare(self, factory: Callable[[str], Any]) -> None:
        raise NotImplementedError

    def tell(self, key: str, message: object) -> None:
        self.directory.tell(key, message)

    def ask(self, key: str, message: object) -> Any:
        return self.directory.ask(key, message)

    def get(self, future: Any) -> Any:
        raise NotImplementedError

    def future(self) -> Any:
        raise NotImplementedError

    def resolve(self, future: Any, value: object) -> None:
        future.set_result(value)

    directory: Directory


class SeedBed(Bed):
    def __init__(self, seed: int = 1) -> None:
        self.scheduler = SimScheduler(seed)

    def prepare(self, factory: Callable[[str], Any]) -> None:
        self.directory = Directory(self.scheduler, factory)

    def get(self, future: Any) -> Any:
        return self.scheduler.run_until(future)

    def future(self) -> Any:
        return self.scheduler.future()

    def close(self) -> None:
        self.directory.abort_all()


class LoopBed(Bed):
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.scheduler = LoopScheduler(self.loop)

    def prepare(self, factory: Callable[[str], Any]) -> None:
        self.directory = Directory(self.scheduler, factory)

    def get(self, future: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(future, LIMIT_S))

    def future(self) -> Any:
        return self.scheduler.future()

    def close(self) -> None:
        self.directory.abort_all()
        self.scheduler.close()
        self.loop.close()


class ThreadBed(Bed):
    base = (GeneratorTurns, pykka.ThreadingActor)

    def __init__(self) -> None:
        self.refs: dict[str, pykka.ActorRef[Any]] = {}
        self.opened: list[concurrent.futures.Future[Any]] = []

    def prepare(self, factory: Callable[[str], Any]) -> None:
        self.factory = factory

    def ref(self, key: str) -> pykka.ActorRef[Any]:
        if key not in self.refs:
            actor = self.factory(key)
            self.refs[key] = actor.actor_ref
            actor._start_actor_loop()
        return self.refs[key]

    def tell(self, key: str, message: object) -> None:
        self.ref(key).tell(message)

    def ask(self, key: str, message: object) -> Any:
        return self.ref(key).ask(message, block=False)

    def get(self, future: Any) -> Any:
        return future.get(timeout=LIMIT_S)

    def future(self) -> Any:
        self.opened.append(concurrent.futures.Future())
        return self.opened[-1]

    def close(self) -> None:
        for future in self.opened:
            future.cancel()
        for ref in self.refs.values():
            if ref.is_alive():
                ref.stop(block=True, timeout=LIMIT_S)


@pytest.fixture(params=[LoopBed, SeedBed, ThreadBed], ids=["loop", "seed", "threads"])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    made = request.param()
    yield made
    made.close()
