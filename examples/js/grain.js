// The grain tally: a count of its own, and calls to a counter written in Rust. A u64 of WIT is a BigInt.
import { increment } from 'granary-examples:counter-refs/counter@1.0.0';

let count = 0n;

export const tally = {
  increment(by) {
    count += by;
    return count;
  },
  get() {
    return count;
  },
  forward(key, by) {
    try {
      return increment({ grainType: 'counter', key }, by);
    } catch (error) {
      throw `the counter did not answer: ${JSON.stringify(error.payload)}`;
    }
  },
};
