"""An org's memory as plain dictionaries: what a save, a replace and a delete do to it, and the facts the language takes from it.

Everything here is slow and obvious: counts are counted, orders are sorted, every time from the events alone."""
from dataclasses import dataclass, field

from . import figures, instants, text


@dataclass
class Event:
    id: str
    summary: str
    timestamp: int  # microseconds since 1970, UTC
    content: str = ""
    order_index: int | None = None
    thread: str | None = None
    entities: list = field(default_factory=list)  # [(name, type or None)], each name once
    tags: list = field(default_factory=list)  # [(name, kind)], each pair once
    vector: list | None = None
    prev: str | None = None


def event_of(memory):
    """A save_memory object (with event_id and timestamp) → the event it makes."""
    entities = {}
    for entity in memory.get("entities") or []:
        name = text.normalise_name(entity["name"])
        entities[name] = entities.get(name) or entity.get("type")
    tags = []
    for tag in memory.get("tags") or []:
        name, kind = (tag, "contains") if isinstance(tag, str) else (tag["name"], tag.get("kind") or "contains")
        if (text.normalise_name(name), kind) not in tags:
            tags.append((text.normalise_name(name), kind))
    vector = memory.get("vector")
    return Event(
        id=memory["event_id"],
        summary=memory["summary"],
        timestamp=instants.parse(memory["timestamp"]),
        content=memory.get("content") or "",
        order_index=memory.get("order_index"),
        thread=memory.get("thread"),
        entities=list(entities.items()),
        tags=tags,
        vector=None if vector is None else figures.to_vector(vector),
        prev=memory.get("prev_event_id"),
    )


class Graph:
    """The live events of one org. Derived facts are computed on first use after a change."""

    def __init__(self):
        self.events = {}  # id → Event
        self._memo = {}

    # --- writes ---

    def save(self, memory):
        self.events[memory["event_id"]] = event_of(memory)
        self._memo = {}

    def delete(self, event_id):
        self.events.pop(event_id, None)
        self._memo = {}

    def apply(self, operation):
        """An operation of a random graph: {"save": memory} or {"delete": id}."""
        if "save" in operation:
            self.save(operation["save"])
        else:
            self.delete(operation["delete"])

    # --- nodes ---

    def _once(self, key, compute):
        if key not in self._memo:
            self._memo[key] = compute()
        return self._memo[key]

    @property
    def count(self):
        return len(self.events)

    def has_event_without_vector(self):
        return any(event.vector is None for event in self.events.values())

    def in_time(self):
        return sorted(self.events.values(), key=lambda event: (event.timestamp, event.id))

    def entities(self):
        """id → (name, type, event_count)."""

        def compute():
            found = {}
            for event in self.in_time():
                for name, type_ in event.entities:
                    _, known_type, count = found.get(text.entity_id(name), (name, None, 0))
                    found[text.entity_id(name)] = (name, type_ if known_type is None else known_type, count + 1)
            return found

        return self._once("entities", compute)

    def tags(self):
        """id → (name, event_count)."""

        def compute():
            found = {}
            for event in self.events.values():
                for name in {name for name, _ in event.tags}:
                    _, count = found.get(text.tag_id(name), (name, 0))
                    found[text.tag_id(name)] = (name, count + 1)
            return found

        return self._once("tags", compute)

    def entity_ids(self, event_id):
        return [text.entity_id(name) for name, _ in self.events[event_id].entities]

    def tag_ids(self, event_id):
        return {text.tag_id(name) for name, _ in self.events[event_id].tags}

    # --- relations ---

    def shared(self, a, b):
        """The entities two events have in common, rarest first, ties by name: [(df, name, id)]."""
        both = set(self.entity_ids(a)) & set(self.entity_ids(b))
        return sorted((self.entities()[id_][2], self.entities()[id_][0], id_) for id_ in both)

    def next_edges(self):
        """(from, to) → source."""

        def compute():
            edges = {}
            for event in self.events.values():
                if event.prev is not None and event.prev in self.events:
                    edges[(event.prev, event.id)] = "explicit"
            threads = {}
            for event in self.events.values():
                if event.thread is not None:
                    threads.setdefault(event.thread, []).append(event)
            for members in threads.values():
                members.sort(key=lambda e: (e.order_index is None, e.order_index or 0, e.timestamp, e.id))
                for before, after in zip(members, members[1:]):
                    edges[(before.id, after.id)] = "thread"
            return edges

        return self._once("next", compute)

    def cosine(self, a, b):
        """Of two events; None where a vector is missing."""
        return self._once(("cos", *sorted((a, b))), lambda: figures.cosine(self.events[a].vector, self.events[b].vector))
