"""Every type of value, given back by Python, itself or through another grain of the contract."""

from dataclasses import fields, is_dataclass
from enum import Enum

from componentize_py_types import Err
from wit_world.exports import values as own
from wit_world.imports import values as other
from wit_world.imports.types import GrainRef


def grain(to):
    """The grain that is meant: TYPE/KEY, or a key of this type."""
    grain_type, slash, key = to.partition("/")
    return GrainRef(grain_type, key) if slash else GrainRef("values-python", to)


def of(module, value):
    """The value in the classes of a module: the tool makes one set for what is exported and one for what is imported."""
    kind = getattr(module, type(value).__name__, type(value))
    if isinstance(value, Enum):
        return kind(value.value)
    if is_dataclass(value):
        return kind(*(of(module, getattr(value, field.name)) for field in fields(value)))
    if isinstance(value, (list, tuple)):
        return kind(of(module, part) for part in value)
    return value


def answer(call):
    """What a call gives; its error as the text that the contract has."""
    try:
        return of(own, call())
    except Err as error:
        raise Err(f"no answer: {error.value}")


class Values:
    def whole(self, value):
        return value

    def flat(self, *parts):
        return parts

    def many(self, *parts):
        return parts

    def nothing(self):
        pass

    def relay(self, to, value):
        def call():
            other.nothing(grain(to))
            return other.whole(grain(to), of(other, value))

        return answer(call)

    def relay_flat(self, to, *parts):
        return answer(lambda: other.flat(grain(to), *of(other, parts)))

    def relay_many(self, to, number, text):
        rights = other.Rights.READ | other.Rights.SHARE
        return answer(
            lambda: other.many(
                grain(to), 255, -128, 65535, -32768, 4294967295, -(2**31), number, -(2**63), 0.5, -0.25,
                True, "\U0010ffff", text, other.Colour.BLUE, 0, rights,
            )
        )
