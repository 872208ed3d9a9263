"""A tiny real text environment for tests of the harness: a corridor of rooms, the last of which holds the goal.

It implements the whole TextEnvironment interface without ALFWorld, so budgets, alterations and forks can be checked
against hand-counted transcripts.
"""

import hashlib


class Corridor:
    verb = "move"
    task = "reach the last room."

    def __init__(self, rooms: int = 6):
        self.rooms = rooms
        self.reset()

    def reset(self) -> str:
        self.place = 0
        self.last = f"You are in room 0 of {self.rooms}.\n\nYour task is to: {self.task}"
        self.last_rejection = None
        return self.last

    def step(self, action: str) -> str:
        self.last_rejection = None
        if action == "forward" and self.place < self.rooms - 1:
            self.place += 1
            self.last = f"You walk into room {self.place}."
        elif action == "look":
            self.last = f"You are in room {self.place}."
        else:
            self.last = "Nothing happens."
            self.last_rejection = "rejected"
        return self.last

    @property
    def won(self) -> bool:
        return self.place == self.rooms - 1

    def admissible(self) -> tuple[str, ...]:
        return ("forward", "look") if self.place < self.rooms - 1 else ("look",)

    def facts_digest(self) -> str:
        return hashlib.sha256(str(self.place).encode()).hexdigest()

    def state_hash(self) -> str:
        return hashlib.sha256(f"{self.last}{self.place}".encode()).hexdigest()

    def snapshot(self):
        return self.place, self.last

    def restore(self, snapshot) -> None:
        self.place, self.last = snapshot
