// Every type of value, given back by JavaScript, itself or through another grain of the contract.
import * as other from 'granary-tests:values-refs/values@1.0.0';

// The grain that is meant: TYPE/KEY, or a key of this type.
function grain(to) {
  const slash = to.indexOf('/');
  return slash < 0
    ? { grainType: 'values-js', key: to }
    : { grainType: to.slice(0, slash), key: to.slice(slash + 1) };
}

// What a call gives; its error as the text that the contract has.
function answer(call) {
  try {
    return call();
  } catch (error) {
    throw `no answer: ${JSON.stringify(error.payload)}`;
  }
}

const SMALLEST = [-2147483648, -(2n ** 63n)];

export const values = {
  whole: (value) => value,
  flat: (...parts) => parts,
  many: (...parts) => parts,
  nothing() {},
  relay: (to, value) =>
    answer(() => {
      other.nothing(grain(to));
      return other.whole(grain(to), value);
    }),
  relayFlat: (to, ...parts) => answer(() => other.flat(grain(to), ...parts)),
  relayMany: (to, number, text) =>
    answer(() =>
      other.many(
        grain(to), 255, -128, 65535, -32768, 4294967295, SMALLEST[0], number, SMALLEST[1], 0.5, -0.25, true,
        '\u{10ffff}', text, 'blue', 0, { read: true, write: false, share: true },
      ),
    ),
};
