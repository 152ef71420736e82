"""Every type of value, given back by Python, and through the Rust grain of the same contract."""

from componentize_py_types import Err
from wit_world.imports.types import GrainRef
from wit_world.imports import granary_tests_values_refs_values as rust
from wit_world.imports import granary_tests_values_values as types


def to(key):
    return GrainRef("values", key)


def ask(call):
    try:
        return call()
    except Err as error:
        raise Err(str(error.value))


class Values:
    def whole(self, value):
        return value

    def flat(self, *parts):
        return parts

    def many(self, *parts):
        return parts

    def nothing(self):
        pass

    def relay(self, key, value):
        return ask(lambda: rust.whole(to(key), value))

    def relay_flat(self, key, *parts):
        return ask(lambda: rust.flat(to(key), *parts))

    def relay_many(self, key, number, text):
        blue, read_share = types.Colour.BLUE, types.Rights.READ | types.Rights.SHARE
        return ask(
            lambda: rust.many(
                to(key), 255, -128, 65535, -32768, 4294967295, -2147483648, number, -9223372036854775808, 0.5, -0.25,
                True, "\U0010ffff", text, blue, 0, read_share,
            )
        )
