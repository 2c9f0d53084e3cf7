//! Components from a few lines of WebAssembly text: a well-behaved policy with places to break.

use super::repository;

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
        let Guest { fields, init, apply, resize, tick, drain_order, pages, hook, bytes_per_slot } =
            self;
        // Capabilities at 0: discriminant 0 = ok, then the record, aligned to four.
        let text = format!(
            r#"(module
  (memory (export "memory") {pages})
  (data (i32.const 4) "\{hook:02x}\00\00\00")
  (data (i32.const 8) "\00\02\00\00\04\00\00\00\00\02\00\00\04\00\00\00\01\00\00\00")
  (data (i32.const 512) "test")
  (func $claim (i32.store (i32.const 36) (i32.const {bytes_per_slot})))
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
  (func (export "tidegate:policy/lifecycle@0.1.0#snapshot") (result i32) i32.const 256)
  (func (export "tidegate:policy/lifecycle@0.1.0#restore") (param i32 i32 i32) (result i32)
    i32.const 256)
  (func (export "tidegate:policy/lifecycle@0.1.0#metrics") (result i32) i32.const 256)
  (func (export "tidegate:policy/lifecycle@0.1.0#fini"))
  (func (export "tidegate:policy/eviction@0.1.0#apply")
    (param i32 i32 i32 i32 i32 i64) (result i32) {apply})
  (func (export "tidegate:policy/eviction@0.1.0#drain-order") (param i32 i32) (result i32)
    {drain_order})
  (func (export "tidegate:policy/eviction@0.1.0#resize") (param i64 i32) {resize})
)"#
        );
        wat::parse_str(text).unwrap()
    }

    /// The component.
    pub fn component(&self) -> Vec<u8> {
        wrap(self.module())
    }
}

fn wrap(mut module: Vec<u8>) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(repository().join("wit/v0.1")).unwrap();
    let world = resolve.select_world(&[package], Some("eviction-policy")).unwrap();
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding).unwrap();
    wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}
