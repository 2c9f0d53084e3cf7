//! Components from a few lines of WebAssembly text: a well-behaved policy with places to break.

/// The parts of a guest that tests replace; the defaults make a policy that never has a victim.
pub struct Guest {
    /// Fields of the module: globals, functions, a start function.
    pub fields: String,
    /// Result of `init`, after which the capabilities are read from address 0.
    pub init: String,
    /// Body of `apply`; parameters as in the canonical ABI, the result is the address of a list.
    pub apply: String,
    pub resize: String,
    pub tick: String,
    pub drain_order: String,
    /// Result is the address of a list of bytes.
    pub snapshot: String,
    /// Parameters are schema, address and length; the result is the address of a verdict.
    pub restore: String,
    pub state_schema: u32,
    /// Pages of memory at the start.
    pub pages: u32,
    /// Number of the hook that it claims to be for.
    pub hook: u8,
    pub bytes_per_slot: u32,
}

impl Default for Guest {
    fn default() -> Self {
        Guest {
            fields: String::new(),
            init: "i32.const 0".to_string(),
            apply: EMPTY_LIST.to_string(),
            resize: String::new(),
            tick: String::new(),
            drain_order: EMPTY_LIST.to_string(),
            snapshot: EMPTY_LIST.to_string(),
            restore: "i32.const 256".to_string(),
            state_schema: 0,
            pages: 2,
            hook: 0,
            bytes_per_slot: 1,
        }
    }
}

/// Zeros stand at 256: no address, no length.
pub const EMPTY_LIST: &str = "i32.const 256";
/// Runs until it is stopped.
pub const FOREVER: &str = "loop $forever br $forever end";

/// Body that counts to `rounds`, a thousand million in a second or some. It ends, so what should
/// have stopped it fails a test and does not hang it.
pub fn slowly(rounds: u64) -> String {
    format!(
        "(local $left i64)
         (local.set $left (i64.const {rounds}))
         loop $again
           (br_if $again (i64.ne
             (local.tee $left (i64.sub (local.get $left) (i64.const 1))) (i64.const 0)))
         end"
    )
}

/// Fields of a FIFO over the slots that came in, 4096 at most: `$push` takes an event word, `$pop`
/// gives the oldest, or -1.
pub const FIFO: &str = "
  (global $head (mut i32) (i32.const 0))
  (global $tail (mut i32) (i32.const 0))
  (func $push (param $word i64)
    (local $op i32)
    (local.set $op (i32.and (i32.wrap_i64 (i64.shr_u (local.get $word) (i64.const 32)))
                            (i32.const 15)))
    (if (i32.or (i32.eq (local.get $op) (i32.const 1))
                (i32.or (i32.eq (local.get $op) (i32.const 4))
                        (i32.eq (local.get $op) (i32.const 8))))
      (then
        (i32.store (i32.add (i32.const 8192)
                            (i32.shl (i32.and (global.get $tail) (i32.const 4095)) (i32.const 2)))
                   (i32.wrap_i64 (local.get $word)))
        (global.set $tail (i32.add (global.get $tail) (i32.const 1))))))
  (func $pop (result i32)
    (if (i32.eq (global.get $head) (global.get $tail)) (then (return (i32.const -1))))
    (i32.load (i32.add (i32.const 8192)
                       (i32.shl (i32.and (global.get $head) (i32.const 4095)) (i32.const 2))))
    (global.set $head (i32.add (global.get $head) (i32.const 1))))";

/// Body of `apply` for [`FIFO`]: takes the events in and returns as many victims as are wanted.
pub const FIFO_APPLY: &str = "
  (local $at i32) (local $slot i32)
  (block $told
    (loop $next
      (br_if $told (i32.ge_u (local.get $at) (local.get 1)))
      (call $push (i64.load (i32.add (local.get 0) (i32.shl (local.get $at) (i32.const 3)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next)))
  (local.set $at (i32.const 0))
  (block $named
    (loop $next
      (br_if $named (i32.ge_u (local.get $at) (local.get 4)))
      (br_if $named (i32.eq (local.tee $slot (call $pop)) (i32.const -1)))
      (i32.store (i32.add (i32.const 1024) (i32.shl (local.get $at) (i32.const 2)))
                 (local.get $slot))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next)))
  (i32.store (i32.const 264) (i32.const 1024))
  (i32.store (i32.const 268) (local.get $at))
  i32.const 264";

/// A policy that serves as a FIFO for `calls` calls of `apply` and traps at the next.
pub fn saboteur(calls: u32) -> Guest {
    let fields = format!("{FIFO} (global $calls (mut i32) (i32.const 0))");
    let apply = format!(
        "{FIFO_APPLY}
         (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (if (i32.gt_u (global.get $calls) (i32.const {calls})) (then unreachable))"
    );
    Guest { fields, apply, ..Guest::default() }
}

/// A FIFO whose state is one byte: how often it was handed over.
pub fn heirloom(schema: u32) -> Guest {
    Guest {
        fields: FIFO.to_string(),
        apply: FIFO_APPLY.to_string(),
        snapshot: "(i32.store (i32.const 272) (i32.const 300))
                   (i32.store (i32.const 276) (i32.const 1))
                   i32.const 272"
            .to_string(),
        restore: "(i32.store8 (i32.const 300)
                    (i32.add (i32.load8_u (local.get 1)) (i32.const 1)))
                  i32.const 256"
            .to_string(),
        state_schema: schema,
        ..Guest::default()
    }
}

/// A list of `count` equal slots: its address and length are written to 264, its items from 512 on.
pub fn list_of(count: u32, slot: u32) -> String {
    format!(
        "(local $i i32)
         loop $next
           (i32.store (i32.add (i32.const 512) (i32.shl (local.get $i) (i32.const 2)))
                      (i32.const {slot}))
           (br_if $next (i32.lt_u
             (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {count})))
         end
         (i32.store (i32.const 264) (i32.const 512))
         (i32.store (i32.const 268) (i32.const {count}))
         i32.const 264"
    )
}

impl Guest {
    /// The core module.
    pub fn module(&self) -> Vec<u8> {
        wat::parse_str(format!("(module {})", self.text())).unwrap()
    }

    /// The component: the module, its functions lifted to the types of the contract.
    pub fn component(&self) -> Vec<u8> {
        let fields = self.text();
        let exports = format!("{LIFECYCLE} {EVICTION}");
        wat::parse_str(format!("(component (core module $guest {fields}) {exports})")).unwrap()
    }

    fn text(&self) -> String {
        let Guest { fields, init, apply, resize, tick, drain_order, .. } = self;
        let Guest { snapshot, restore, state_schema, pages, hook, bytes_per_slot, .. } = self;
        // Capabilities at 0: discriminant 0 = ok, then the record, aligned to four.
        format!(
            r#"(memory (export "memory") {pages})
  (data (i32.const 4) "\{hook:02x}\00\00\00")
  (data (i32.const 8) "\00\02\00\00\04\00\00\00\00\02\00\00\04\00\00\00\01\00\00\00")
  (data (i32.const 512) "test")
  (func $claim
    (i32.store (i32.const 32) (i32.const {state_schema}))
    (i32.store (i32.const 36) (i32.const {bytes_per_slot})))
  (global $free (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    ;; One call at a time: start again once the second page is half used.
    (if (i32.gt_u (global.get $free) (i32.const 98304))
      (then (global.set $free (i32.const 65536))))
    global.get $free
    (global.set $free (i32.and
      (i32.add (i32.add (global.get $free) (local.get 3)) (i32.const 15)) (i32.const -16))))
  {fields}
  (func (export "tidegate:policy/lifecycle@0.1.0#init")
    (param i32 i32 i32 i32 i64) (result i32) call $claim {init})
  (func (export "tidegate:policy/lifecycle@0.1.0#tick") (param i64) {tick})
  (func (export "tidegate:policy/lifecycle@0.1.0#snapshot") (result i32) {snapshot})
  (func (export "tidegate:policy/lifecycle@0.1.0#restore") (param i32 i32 i32) (result i32)
    {restore})
  (func (export "tidegate:policy/lifecycle@0.1.0#metrics") (result i32) i32.const 256)
  (func (export "tidegate:policy/lifecycle@0.1.0#fini"))
  (func (export "tidegate:policy/eviction@0.1.0#apply")
    (param i32 i32 i32 i32 i32 i64) (result i32) {apply})
  (func (export "tidegate:policy/eviction@0.1.0#drain-order") (param i32 i32) (result i32)
    {drain_order})
  (func (export "tidegate:policy/eviction@0.1.0#resize") (param i64 i32) {resize})
"#
        )
    }
}

/// A read-admission policy; `body` is that of `plan` and ends with the address of a list.
pub fn read_admission(body: &str) -> Vec<u8> {
    let parameters = r#"(param "now-us" u64) (param "memory-free" u64) (param "stats" (list u64))
        (result (list u64))"#;
    planner(2, "read-admission", "(param i64 i64 i32 i32)", parameters, body)
}

/// A load-shedding policy.
pub fn load_shedding(body: &str) -> Vec<u8> {
    let parameters = r#"(param "now-us" u64) (param "signals" (list u64)) (result (list u32))"#;
    planner(6, "load-shedding", "(param i64 i32 i32)", parameters, body)
}

/// An I/O-priority policy.
pub fn io_priority(body: &str) -> Vec<u8> {
    let parameters = r#"(param "now-us" u64) (param "disk" (list u64)) (param "classes" (list u64))
        (result (list u32))"#;
    planner(4, "io-priority", "(param i64 i32 i32 i32 i32)", parameters, body)
}

/// A rate-limiter policy; `plan` ends with the address of a list, `exceeded` with its answer.
pub fn rate_limiter(plan: &str, exceeded: &str) -> Vec<u8> {
    let name = "tidegate:policy/rate-limiter@0.1.0";
    let functions = format!(
        "(func (export \"{name}#plan\") (param i64 i32 i32) (result i32) {plan})
         (func (export \"{name}#exceeded\") (param i64 i64 i64) (result i32) {exceeded})"
    );
    let guest = Guest { hook: 3, fields: functions, bytes_per_slot: 0, ..Guest::default() };
    let fields = guest.text();
    let lifted = format!(
        r#"
  (func $plan (param "now-us" u64) (param "stats" (list u64)) (result (list u64))
    (canon lift (core func $core "{name}#plan")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (func $exceeded (param "key" u64) (param "class-op" u64) (param "deficit-milli" u64)
    (result u32) (canon lift (core func $core "{name}#exceeded")))
  (instance $limiter
    (export "plan" (func $plan)) (export "exceeded" (func $exceeded)))
  (export "{name}" (instance $limiter))
"#
    );
    let text = format!("(component (core module $guest {fields}) {LIFECYCLE} {lifted})");
    wat::parse_str(text).unwrap()
}

/// A cache-admission policy; `admit` ends with its answer.
pub fn cache_admission(admit: &str, feedback: &str) -> Vec<u8> {
    let name = "tidegate:policy/cache-admission@0.1.0";
    let functions = format!(
        "(func (export \"{name}#admit\") (param i64 i64 i64) (result i32) {admit})
         (func (export \"{name}#admit-batch\") (param i32 i32) (result i32) i32.const 256)
         (func (export \"{name}#feedback\") (param i32 i32) {feedback})"
    );
    let guest = Guest { hook: 1, fields: functions, bytes_per_slot: 0, ..Guest::default() };
    let fields = guest.text();
    let lifted = format!(
        r#"
  (func $admit (param "fingerprint" u64) (param "size-cost" u64) (param "ctx" u64)
    (result u32) (canon lift (core func $core "{name}#admit")))
  (func $admit-batch (param "words" (list u64)) (result (list u8))
    (canon lift (core func $core "{name}#admit-batch")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (func $feedback (param "words" (list u64))
    (canon lift (core func $core "{name}#feedback")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (instance $filter
    (export "admit" (func $admit)) (export "admit-batch" (func $admit-batch))
    (export "feedback" (func $feedback)))
  (export "{name}" (instance $filter))
"#
    );
    let text = format!("(component (core module $guest {fields}) {LIFECYCLE} {lifted})");
    wat::parse_str(text).unwrap()
}

/// A compaction policy; `body` is that of `pick` and ends with the address of a choice. Parameters
/// 7 and 8 are the address of the first SSTable and their number.
pub fn compaction(body: &str) -> Vec<u8> {
    let name = "tidegate:policy/compaction@0.1.0";
    let core = "(param i32 i32 i64 i32 i32 i32 i64 i32 i32) (result i32)";
    let pick = format!("(func (export \"{name}#pick\") {core} {body})");
    let guest = Guest { hook: 5, fields: pick, bytes_per_slot: 0, ..Guest::default() };
    let fields = guest.text();
    let lifted = format!(
        r#"
  (type $strategy (enum "size-tiered" "leveled" "time-window" "incremental"))
  (type $table (record (field "name" string) (field "now-seconds" u64)
    (field "strategy" $strategy) (field "min-threshold" u32) (field "max-threshold" u32)
    (field "sstable-bytes" u64)))
  (type $sstable (record (field "id" u64) (field "run" u64) (field "level" u32)
    (field "bytes" u64) (field "partitions" u64) (field "rows" u64) (field "first-token" s64)
    (field "last-token" s64) (field "min-timestamp" s64) (field "max-timestamp" s64)
    (field "droppable-per-mille" u32) (field "age-seconds" u32)))
  (type $job (record (field "inputs" (list u64)) (field "level" u32) (field "split-bytes" u64)
    (field "incremental" bool)))
  (type $choice (variant (case "nothing") (case "strategy") (case "merge" $job)))
  (func $pick (param "table" $table) (param "sstables" (list $sstable)) (result $choice)
    (canon lift (core func $core "{name}#pick")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (instance $chooser
    (export "strategy" (type $strategy)) (export "table" (type $table))
    (export "sstable" (type $sstable)) (export "job" (type $job))
    (export "choice" (type $choice)) (export "pick" (func $pick)))
  (export "{name}" (instance $chooser))
"#
    );
    let text = format!("(component (core module $guest {fields}) {LIFECYCLE} {lifted})");
    wat::parse_str(text).unwrap()
}

/// Body of a pick that merges these into one SSTable or, where it is cut, into a run.
pub fn merge_of(inputs: &[u64], level: u32, split_bytes: u64) -> String {
    let stores = inputs
        .iter()
        .enumerate()
        .map(|(at, number)| {
            format!("(i64.store (i32.const {}) (i64.const {number}))", 1024 + at * 8)
        })
        .collect::<String>();
    // The case at 768, then the record: the list, the level, the cut, and whether it is a run.
    format!(
        "{stores}
         (i32.store8 (i32.const 768) (i32.const 2))
         (i32.store (i32.const 776) (i32.const 1024))
         (i32.store (i32.const 780) (i32.const {}))
         (i32.store (i32.const 784) (i32.const {level}))
         (i64.store (i32.const 792) (i64.const {split_bytes}))
         (i32.store8 (i32.const 800) (i32.const {}))
         i32.const 768",
        inputs.len(),
        u8::from(split_bytes > 0)
    )
}

/// Body of a pick that merges nothing (0), or leaves it to the strategy (1).
pub fn case_of(case: u8) -> String {
    format!("(i32.store8 (i32.const 768) (i32.const {case})) i32.const 768")
}

/// Body of a plan of these words, each of so many bytes.
pub fn plan_of(words: &[u64], bytes: usize) -> String {
    let store = if bytes == 8 { "i64.store" } else { "i64.store32" };
    let stores = words.iter().enumerate().map(|(at, word)| {
        format!("({store} (i32.const {}) (i64.const {word}))", 1024 + at * bytes)
    });
    let count = words.len();
    format!(
        "{} (i32.store (i32.const 264) (i32.const 1024)) (i32.store (i32.const 268) (i32.const {count}))
         i32.const 264",
        stores.collect::<String>()
    )
}

fn planner(hook: u8, world: &str, core: &str, parameters: &str, body: &str) -> Vec<u8> {
    let name = format!("tidegate:policy/{world}@0.1.0");
    let plan = format!("(func (export \"{name}#plan\") {core} (result i32) {body})");
    let guest = Guest { hook, fields: plan, bytes_per_slot: 0, ..Guest::default() };
    let fields = guest.text();
    let lifted = format!(
        "(func $plan {parameters} (canon lift (core func $core \"{name}#plan\")
           (memory $core \"memory\") (realloc (func $core \"cabi_realloc\"))))
         (instance $planner (export \"plan\" (func $plan)))
         (export \"{name}\" (instance $planner))"
    );
    let text = format!("(component (core module $guest {fields}) {LIFECYCLE} {lifted})");
    wat::parse_str(text).unwrap()
}

/// The exports of `wit/v0.1`, written out by hand; the host compares their types with the WIT.
const LIFECYCLE: &str = r#"
  (core instance $core (instantiate $guest))
  (type $hook (enum "eviction" "cache-admission" "read-admission" "rate-limiter" "io-priority"
    "compaction" "load-shedding"))
  (type $param (record (field "name" string) (field "value" string)))
  (type $caps (record (field "hook" $hook) (field "name" string) (field "version" string)
    (field "deterministic" bool) (field "wants-miss-events" bool) (field "wants-ticks-ms" u32)
    (field "state-schema" u32) (field "bytes-per-slot" u32)))
  (type $metric (record (field "name" string) (field "value" float64)))
  (func $init (param "params" (list $param)) (param "max-slots" u32) (param "shard" u32)
    (param "seed" u64) (result (result $caps (error string)))
    (canon lift (core func $core "tidegate:policy/lifecycle@0.1.0#init")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (func $tick (param "now-us" u64)
    (canon lift (core func $core "tidegate:policy/lifecycle@0.1.0#tick")))
  (func $snapshot (result (list u8))
    (canon lift (core func $core "tidegate:policy/lifecycle@0.1.0#snapshot")
      (memory $core "memory")))
  (func $restore (param "schema" u32) (param "state" (list u8)) (result (result (error string)))
    (canon lift (core func $core "tidegate:policy/lifecycle@0.1.0#restore")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (func $metrics (result (list $metric))
    (canon lift (core func $core "tidegate:policy/lifecycle@0.1.0#metrics")
      (memory $core "memory")))
  (func $fini (canon lift (core func $core "tidegate:policy/lifecycle@0.1.0#fini")))
  (instance $lifecycle
    (export "hook" (type $hook)) (export "param" (type $param))
    (export "caps" (type $caps)) (export "metric" (type $metric))
    (export "init" (func $init)) (export "tick" (func $tick))
    (export "snapshot" (func $snapshot)) (export "restore" (func $restore))
    (export "metrics" (func $metrics)) (export "fini" (func $fini)))
  (export "tidegate:policy/lifecycle@0.1.0" (instance $lifecycle))
"#;

const EVICTION: &str = r#"
  (func $apply (param "events" (list u64)) (param "attrs" (list u64))
    (param "want-entries" u32) (param "want-bytes" u64) (result (list u32))
    (canon lift (core func $core "tidegate:policy/eviction@0.1.0#apply")
      (memory $core "memory") (realloc (func $core "cabi_realloc"))))
  (func $drain-order (param "cursor" u32) (param "max" u32) (result (list u32))
    (canon lift (core func $core "tidegate:policy/eviction@0.1.0#drain-order")
      (memory $core "memory")))
  (func $resize (param "capacity-bytes" u64) (param "max-slots" u32)
    (canon lift (core func $core "tidegate:policy/eviction@0.1.0#resize")))
  (instance $eviction
    (export "apply" (func $apply)) (export "drain-order" (func $drain-order))
    (export "resize" (func $resize)))
  (export "tidegate:policy/eviction@0.1.0" (instance $eviction))
"#;
