// What the world `cache-admission-policy` exports; `names.js` gives these their names.

import { given, put, putText, release, text } from "./abi";
import { admit, admitted, refused, start } from "./second-touch";

export { cabi_realloc } from "./abi";

/** Fingerprints remembered for each entry of the cache, when nobody says. */
const REMEMBERED: u64 = 2;
/** Bytes of `param`: two strings. */
const PARAM_BYTES = 16;
/** Of `hook`: cache-admission. */
const HOOK: u8 = 1;

/** The words of one answer, until the next. */
const answer = memory.data(48, 8);
const figures = memory.data(32, 8);
const NAME = text("assemblyscript-second-touch");
const VERSION = text("0.1.0");
const ADMITTED = text("admitted");
const REFUSED = text("refused");

/** The bytes of the last answer to a batch. */
let batch: usize = 0;

export function lifecycle_init(
  params: usize,
  length: i32,
  maxSlots: u32,
  shard: u32,
  seed: u64,
): usize {
  let perSlot = REMEMBERED;
  for (let at = 0; at < length; at++) {
    const param = params + at * PARAM_BYTES;
    const name = given(load<u32>(param), load<u32>(param + 4));
    const value = given(load<u32>(param + 8), load<u32>(param + 12));
    if (name != "remembered") {
      return refuse("unknown parameter '" + name + "'; known: [\"remembered\"]");
    }
    if (value != "1" && value != "2") {
      return refuse("parameter remembered: '" + value + "' is no whole number from 1 to 2");
    }
    perSlot = value == "1" ? 1 : 2;
  }
  // A block for what will come in, taken while there is little memory: with much of it the
  // allocator would grow it to twice as much at the first list.
  const spare = heap.alloc(1 << 16);
  start(maxSlots, perSlot);
  heap.free(spare);

  store<u8>(answer, 0); // ok
  store<u8>(answer + 4, HOOK);
  putText(answer + 8, NAME);
  putText(answer + 16, VERSION);
  store<u8>(answer + 24, 1); // deterministic
  store<u8>(answer + 25, 0); // no feedback
  store<u32>(answer + 28, 0); // no ticks
  store<u32>(answer + 32, 0); // no snapshot
  // Twice two fingerprints: their number is rounded up to a power of two.
  store<u32>(answer + 36, 16);
  return answer;
}

function refuse(why: string): usize {
  store<u8>(answer, 1);
  putText(answer + 4, text(why));
  return answer;
}

export function lifecycle_tick(now: u64): void {}

export function lifecycle_snapshot(): usize {
  put(answer, 0, 0);
  return answer;
}

export function lifecycle_restore(schema: u32, state: usize, length: i32): usize {
  release(state, length);
  return refuse("it keeps no state, so it cannot restore schema " + schema.toString());
}

export function lifecycle_metrics(): usize {
  putText(figures, ADMITTED);
  store<f64>(figures + 8, <f64>admitted);
  putText(figures + 16, REFUSED);
  store<f64>(figures + 24, <f64>refused);
  put(answer, figures, 2);
  return answer;
}

export function lifecycle_fini(): void {}

export function admission_admit(fingerprint: u64, sizeCost: u64, ctx: u64): u32 {
  return u32(admit(fingerprint, ctx));
}

export function admission_admit_batch(words: usize, length: i32): usize {
  if (batch != 0) heap.free(batch);
  const count = length / 3;
  batch = count > 0 ? heap.alloc(count) : 0;
  for (let at = 0; at < count; at++) {
    const candidate = words + at * 24;
    const kept = admit(load<u64>(candidate), load<u64>(candidate + 16));
    store<u8>(batch + at, u8(kept));
  }
  release(words, length);
  put(answer, batch, count);
  return answer;
}

export function admission_feedback(words: usize, length: i32): void {
  release(words, length);
}
