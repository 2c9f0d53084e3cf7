// Admission: an entry is kept when it is missed for the second time within memory. What is read
// once, such as by a scan, evicts nothing. Decides exactly as ../../second-touch does, in Rust.
//
// Memory: two fingerprints of four bytes an entry of the cache, in a table without collisions
// resolved: a newer one takes the place of an older.
//
// Invariant: state is of fixed size; while there is room, everything is kept.

/** Upper halves of fingerprints, by their lower bits; 0 is nothing. */
let seen = new StaticArray<u32>(1);

export let admitted: u64 = 0;
export let refused: u64 = 0;

/** Makes room for what is remembered: `perSlot` fingerprints for each entry of the cache. */
export function start(maxSlots: u32, perSlot: u64): void {
  let count: u64 = 64;
  while (count < <u64>maxSlots * perSlot) count <<= 1;
  seen = new StaticArray<u32>(<i32>count);
}

/** Whether an entry is kept that was read on a miss. */
export function admit(fingerprint: u64, ctx: u64): bool {
  const at = <i32>(fingerprint & <u64>(seen.length - 1));
  const tag = <u32>(fingerprint >> 32) | 1;
  // The mask is what holds the index within bounds.
  const again = unchecked(seen[at]) == tag;
  unchecked((seen[at] = tag));
  const hasRoom = ((ctx >> 4) & 1) == 1;
  const isKept = again || hasRoom;
  if (isKept) admitted++;
  else refused++;
  return isKept;
}
