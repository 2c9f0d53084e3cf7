// The canonical ABI by hand: where the host puts what it hands over, and where it looks for answers.
// There is no generator of bindings for AssemblyScript; this is all that the contract needs of one.
//
// Invariant: nothing here is left to the garbage collector, which never runs. What comes in was
// taken with `cabi_realloc` and is freed by `release`; what goes out stands in memory of its own
// until the next answer.

@external("tidegate:policy/host@0.1.0", "log")
declare function log(level: i32, text: usize, length: i32): void;

/** Memory for what the host hands over. */
export function cabi_realloc(old: usize, oldSize: usize, align: usize, size: usize): usize {
  // Blocks start at multiples of 16, which is more than any type here asks for.
  return old == 0 ? heap.alloc(size) : heap.realloc(old, size);
}

/** Gives back a list that the host handed over; an empty one has no memory. */
export function release(list: usize, length: i32): void {
  if (length > 0) heap.free(list);
}

/** What AssemblyScript calls where an assertion or a check of an index fails. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  // The host keeps the last error line for the record of the failure.
  const text = (message ? message : "failed") + " at line " + line.toString();
  const bytes = String.UTF8.encode(text);
  log(4, changetype<usize>(bytes), bytes.byteLength);
  unreachable();
}

/** A string as UTF-8, which stays: a name, a text of an error. */
export function text(words: string): ArrayBuffer {
  return String.UTF8.encode(words);
}

/** A string that the host handed over. */
export function given(bytes: usize, length: i32): string {
  return String.UTF8.decodeUnsafe(bytes, length);
}

/** Writes the two words of a string or list. */
export function put(at: usize, bytes: usize, length: i32): void {
  store<u32>(at, <u32>bytes);
  store<u32>(at + 4, length);
}

/** Writes the two words of a string. */
export function putText(at: usize, bytes: ArrayBuffer): void {
  put(at, changetype<usize>(bytes), bytes.byteLength);
}
