//! What takes bytes of others, given to libFuzzer: files of SSTables, calls of Flight, what clients
//! carry, messages of other nodes, ring files and statements.
//!
//! `TIDEGATE_FUZZ` names the target, and `TIDEGATE_FUZZ_SEEDS` a folder that gets right inputs.
//! `tests/fuzz/run` builds and runs it.

#![no_main]

mod sstable;
// The engine's own tests have a disk of byte vectors; it names its modules as they are in the
// engine.
#[path = "../../engine/src/sstable/tests/memory_disk.rs"]
mod memory_disk;

use std::path::Path;
use std::sync::OnceLock;

use tidegate::fuzz::TARGETS;
use tidegate_engine::sstable::Component;
use tidegate_engine::{config, disk, error};

/// What one run is given to.
enum Target {
    Component(Component),
    Other(tidegate::fuzz::Target),
}

static TARGET: OnceLock<Target> = OnceLock::new();

impl Target {
    fn named(name: &str) -> Option<Self> {
        let component = sstable::COMPONENTS.iter().find(|(known, _)| *known == name);
        let component = component.map(|(_, component)| Target::Component(*component));
        let other = || TARGETS.into_iter().find(|known| known.name == name).map(Target::Other);
        component.or_else(other)
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        match self {
            Target::Component(component) => sstable::seeds(*component),
            Target::Other(target) => (target.seeds)(),
        }
    }

    fn run(&self, content: &[u8]) {
        match self {
            Target::Component(component) => sstable::read_with(*component, content),
            Target::Other(target) => (target.run)(content),
        }
    }
}

/// A panic of ours ends the process, so that libFuzzer keeps the input. Crates of others may panic
/// where the code around them catches it: the end of that is an error, or the end of the process.
fn end_at_own_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |place| place.file());
        match place.contains("/registry/") {
            true => eprintln!("{panic}"),
            false => tell(panic),
        }
    }));
}

fn begin() {
    end_at_own_panics();
    let named = std::env::var("TIDEGATE_FUZZ").unwrap_or_default();
    let target = Target::named(&named).unwrap_or_else(|| {
        let components = sstable::COMPONENTS.iter().map(|(name, _)| *name);
        let names: Vec<&str> = components.chain(TARGETS.iter().map(|known| known.name)).collect();
        eprintln!("TIDEGATE_FUZZ={named}: there is no such target, but {}", names.join(" "));
        std::process::exit(2);
    });
    if let Some(folder) = std::env::var_os("TIDEGATE_FUZZ_SEEDS") {
        for (number, seed) in target.seeds().into_iter().enumerate() {
            let path = Path::new(&folder).join(format!("seed-{number}"));
            std::fs::write(&path, seed).expect("a folder that can be written to");
        }
    }
    TARGET.get_or_init(|| target);
}

libfuzzer_sys::fuzz_target!(init: begin(), |content: &[u8]| {
    TARGET.get().expect("it was named at the begin").run(content);
});
