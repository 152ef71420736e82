// Every type of value, given back by JavaScript. It calls nobody: the relaying methods say so.
function nobody() {
  throw 'this grain calls nobody';
}

export const values = {
  whole: (value) => value,
  flat: (...parts) => parts,
  many: (...parts) => parts,
  nothing() {},
  relay: nobody,
  relayFlat: nobody,
  relayMany: nobody,
};
