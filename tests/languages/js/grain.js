// Every type of value, given back by JavaScript, and through the Rust grain of the same contract.
import * as rust from 'granary-tests:values-refs/values@1.0.0';

const to = (key) => ({ grainType: 'values', key });

function ask(call) {
  try {
    return call();
  } catch (error) {
    throw error.payload === undefined ? String(error) : JSON.stringify(error.payload);
  }
}

export const values = {
  whole: (value) => value,
  flat: (...parts) => parts,
  many: (...parts) => parts,
  nothing() {},
  relay: (key, value) => ask(() => rust.whole(to(key), value)),
  relayFlat: (key, ...parts) => ask(() => rust.flat(to(key), ...parts)),
  relayMany: (key, number, text) =>
    ask(() =>
      rust.many(
        to(key), 255, -128, 65535, -32768, 4294967295, -2147483648, number, -9223372036854775808n, 0.5, -0.25, true,
        '\u{10ffff}', text, 'blue', 0, { read: true, share: true },
      ),
    ),
};
