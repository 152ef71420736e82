"""Every type of value, given back by Python. It calls nobody: the relaying methods say so."""

from componentize_py_types import Err


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
        raise Err("this grain calls nobody")

    def relay_flat(self, key, *parts):
        raise Err("this grain calls nobody")

    def relay_many(self, key, number, text):
        raise Err("this grain calls nobody")
