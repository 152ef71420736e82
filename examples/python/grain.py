"""The grain tally: a count of its own, and calls to a counter written in Rust."""

from componentize_py_types import Err
from wit_world.imports import counter
from wit_world.imports.types import GrainRef

count = 0


class Tally:
    def increment(self, by: int) -> int:
        global count
        count += by
        return count

    def get(self) -> int:
        return count

    def forward(self, key: str, by: int) -> int:
        try:
            return counter.increment(GrainRef("counter", key), by)
        except Err as error:
            raise Err(f"the counter did not answer: {error.value}")
