//! `tidegate plugin new`: a project of a policy that builds as it is.
//!
//! ```text
//! NAME/Cargo.toml  src/    the policy, to be changed
//! NAME/sdk/        wit/    the SDK and the contract of this version, copied
//! NAME/build/              `cargo run -p build` makes NAME.wasm
//! ```
//! In C `policy.c` stands in the place of `src/`, and there is no SDK.
//!
//! Invariant: nothing that is there already is overwritten, and a failure leaves a message that
//! names the file.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::failure::Failure;
use crate::cli::{Language, NewArguments, World};

/// Bytes of a policy's name in the contract.
const NAME_BYTES_MAX: usize = 48;

type File = (&'static str, &'static str);

/// The contract.
const WIT: [File; 10] = [
    ("wit/v0.1/world.wit", include_str!("../../../wit/v0.1/world.wit")),
    ("wit/v0.1/host.wit", include_str!("../../../wit/v0.1/host.wit")),
    ("wit/v0.1/lifecycle.wit", include_str!("../../../wit/v0.1/lifecycle.wit")),
    ("wit/v0.1/eviction.wit", include_str!("../../../wit/v0.1/eviction.wit")),
    ("wit/v0.1/cache-admission.wit", include_str!("../../../wit/v0.1/cache-admission.wit")),
    ("wit/v0.1/rate-limiter.wit", include_str!("../../../wit/v0.1/rate-limiter.wit")),
    ("wit/v0.1/read-admission.wit", include_str!("../../../wit/v0.1/read-admission.wit")),
    ("wit/v0.1/load-shedding.wit", include_str!("../../../wit/v0.1/load-shedding.wit")),
    ("wit/v0.1/io-priority.wit", include_str!("../../../wit/v0.1/io-priority.wit")),
    ("wit/v0.1/compaction.wit", include_str!("../../../wit/v0.1/compaction.wit")),
];

/// The SDK of eviction policies.
const SDK: [File; 8] = [
    ("sdk/Cargo.toml", include_str!("project/sdk.toml.txt")),
    ("sdk/src/lib.rs", include_str!("../../../plugins/sdk/src/lib.rs")),
    ("sdk/src/driver.rs", include_str!("../../../plugins/sdk/src/driver.rs")),
    ("sdk/src/event.rs", include_str!("../../../plugins/sdk/src/event.rs")),
    ("sdk/src/export.rs", include_str!("../../../plugins/sdk/src/export.rs")),
    ("sdk/src/guest.rs", include_str!("../../../plugins/sdk/src/guest.rs")),
    ("sdk/src/list.rs", include_str!("../../../plugins/sdk/src/list.rs")),
    ("sdk/src/replay.rs", include_str!("../../../plugins/sdk/src/replay.rs")),
];

/// The SDK of all other worlds.
const DECISION: [File; 9] = [
    ("sdk/Cargo.toml", include_str!("project/sdk.toml.txt")),
    ("sdk/src/lib.rs", include_str!("../../../plugins/decision/src/lib.rs")),
    ("sdk/src/admission.rs", include_str!("../../../plugins/decision/src/admission.rs")),
    ("sdk/src/compaction.rs", include_str!("../../../plugins/decision/src/compaction.rs")),
    ("sdk/src/export.rs", include_str!("../../../plugins/decision/src/export.rs")),
    ("sdk/src/io_priority.rs", include_str!("../../../plugins/decision/src/io_priority.rs")),
    ("sdk/src/plan.rs", include_str!("../../../plugins/decision/src/plan.rs")),
    ("sdk/src/rate.rs", include_str!("../../../plugins/decision/src/rate.rs")),
    ("sdk/src/setup.rs", include_str!("../../../plugins/decision/src/setup.rs")),
];

/// What every project has.
const PROJECT: [File; 4] = [
    ("Cargo.toml", include_str!("project/policy.toml.txt")),
    ("build/Cargo.toml", include_str!("project/build.toml.txt")),
    ("build/src/main.rs", include_str!("project/build.rs.txt")),
    (".gitignore", "target/\n*.wasm\n"),
];

const EVICTION: [File; 3] = [
    ("src/lib.rs", include_str!("project/policy.rs.txt")),
    ("src/tests.rs", include_str!("project/tests.rs.txt")),
    ("README.md", include_str!("project/readme.md.txt")),
];

const ADMISSION: [File; 2] = [
    ("src/lib.rs", include_str!("project/admission.rs.txt")),
    ("README.md", include_str!("project/decision.md.txt")),
];

const RATE: [File; 2] = [
    ("src/lib.rs", include_str!("project/rate.rs.txt")),
    ("README.md", include_str!("project/decision.md.txt")),
];

const READS: [File; 2] = [
    ("src/lib.rs", include_str!("project/read_admission.rs.txt")),
    ("README.md", include_str!("project/decision.md.txt")),
];

const SHEDDING: [File; 2] = [
    ("src/lib.rs", include_str!("project/load_shedding.rs.txt")),
    ("README.md", include_str!("project/decision.md.txt")),
];

const IO: [File; 2] = [
    ("src/lib.rs", include_str!("project/io_priority.rs.txt")),
    ("README.md", include_str!("project/decision.md.txt")),
];

const MERGES: [File; 2] = [
    ("src/lib.rs", include_str!("project/compaction.rs.txt")),
    ("README.md", include_str!("project/decision.md.txt")),
];

/// A project in C: CLOCK as it stands in the engine's tree.
const C: [File; 6] = [
    ("policy.c", include_str!("../../../plugins/c-clock/clock.c")),
    ("Cargo.toml", "[workspace]\nmembers = [\"build\"]\nresolver = \"3\"\n"),
    ("build/Cargo.toml", include_str!("project/build_c.toml.txt")),
    ("build/src/main.rs", include_str!("project/build_c.rs.txt")),
    ("README.md", include_str!("project/readme_c.md.txt")),
    (".gitignore", "target/\n*.wasm\n"),
];

/// Writes the project.
pub(super) fn create(arguments: &NewArguments, out: &mut dyn Write) -> Result<(), Failure> {
    let NewArguments { folder, lang, world } = arguments;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    if folder.exists() {
        let there = folder.display();
        return Err(Failure::Wrong(format!("'{there}' is there already: take another name")));
    }
    const CACHE: &str = "ALTER CACHE SET POLICY =";
    type Parts = (&'static [File], &'static str, &'static [File], &'static [File], &'static str);
    let (sdk, crate_name, project, policy, use_it): Parts = match (lang, world) {
        (Language::C, World::Eviction) => (&[], "", &[], &C, CACHE),
        (Language::C, _) => {
            let why = "a project in C is of world eviction; write others after it, or use Rust";
            return Err(Failure::Wrong(why.to_owned()));
        }
        (Language::Rust, World::Eviction) => (&SDK, "tidegate-plugin", &PROJECT, &EVICTION, CACHE),
        (Language::Rust, World::CacheAdmission) => {
            let use_it = "ALTER CACHE SET ADMISSION =";
            (&DECISION, "tidegate-plugin-decision", &PROJECT, &ADMISSION, use_it)
        }
        (Language::Rust, World::RateLimiter) => {
            let use_it = "ALTER RATE LIMITER SET POLICY =";
            (&DECISION, "tidegate-plugin-decision", &PROJECT, &RATE, use_it)
        }
        (Language::Rust, World::ReadAdmission) => {
            let use_it = "ALTER READ ADMISSION SET POLICY =";
            (&DECISION, "tidegate-plugin-decision", &PROJECT, &READS, use_it)
        }
        (Language::Rust, World::LoadShedding) => {
            let use_it = "ALTER LOAD SHEDDING SET POLICY =";
            (&DECISION, "tidegate-plugin-decision", &PROJECT, &SHEDDING, use_it)
        }
        (Language::Rust, World::IoPriority) => {
            let use_it = "ALTER IO PRIORITY SET POLICY =";
            (&DECISION, "tidegate-plugin-decision", &PROJECT, &IO, use_it)
        }
        (Language::Rust, World::Compaction) => {
            let use_it = "ALTER COMPACTION SET POLICY =";
            (&DECISION, "tidegate-plugin-decision", &PROJECT, &MERGES, use_it)
        }
    };
    let underscored = name.replace('-', "_");
    let files = WIT.iter().chain(sdk).chain(project).chain(policy);
    for (file, content) in files {
        let content = content
            .replace("@NAME@", name)
            .replace("@UNDERSCORED@", &underscored)
            .replace("@SDK@", crate_name)
            .replace("@USE@", use_it)
            // The example in C has a name of its own, and stands beside its twin.
            .replace("\"c-clock", &format!("\"{name}"))
            .replace(" Decides exactly as ../clock does, in Rust.", "")
            // In the project the contract stands beside the SDK, in the engine's tree a folder up.
            .replace("../../wit/v0.1", "../wit/v0.1");
        write(&folder.join(file), &content)?;
    }
    tell_next(arguments, (&underscored, use_it), out)
}

/// Errors: `Wrong` for a name that cannot be that of a crate and of a policy.
fn check_name(name: &str) -> Result<(), Failure> {
    let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_BYTES_MAX
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-');
    if !fits {
        return Err(Failure::Wrong(format!(
            "'{name}' cannot name a policy: use up to {NAME_BYTES_MAX} lower case letters, \
             digits, '-' and '_', a letter first"
        )));
    }
    // The compiler reads '-' in the name of a crate as '_'.
    let crate_name = name.replace('-', "_");
    let whose = match &*crate_name {
        word if KEYWORDS.contains(&word) => "a keyword of Rust",
        word if RESERVED.contains(&word) => "the name of a crate or folder that projects need",
        _ => return Ok(()),
    };
    Err(Failure::Wrong(format!("'{name}' cannot name a policy: it is {whose}; take another")))
}

/// What to do with the project.
fn tell_next(
    arguments: &NewArguments,
    (policy, use_it): (&str, &str),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let place = arguments.folder.display();
    writeln!(out, "{place} is a policy. Next:")?;
    writeln!(out, "  cd {place}")?;
    if arguments.lang == Language::Rust {
        writeln!(out, "  cargo test                             # the policy, natively")?;
    }
    writeln!(out, "  cargo run -p build                     # {policy}.wasm")?;
    writeln!(out, "  tidegate plugin check {policy}.wasm")?;
    writeln!(out, "  tidegate -c \"CREATE POLICY {policy} FROM '{policy}.wasm'\" \\")?;
    writeln!(out, "           -c '{use_it} {policy}'")?;
    Ok(())
}

/// Names of the other crates of the project, of those that they need, and of cargo's own folders.
const RESERVED: [&str; 14] = [
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "incremental",
    "proc_macro",
    "sdk",
    "std",
    "test",
    "tidegate_plugin",
    "tidegate_plugin_decision",
    "wit_bindgen",
    "wit_component",
];

/// Words that cargo takes for no package, lower case.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

fn write(path: &Path, content: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Wrong(format!("cannot write '{}': {error}", path.display()))
    };
    let folder = path.parent().expect("a file of the project stands in a folder");
    fs::create_dir_all(folder).map_err(failed)?;
    fs::write(path, content).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a name is refused; `None` where it is taken.
    fn refused(name: &str) -> Option<String> {
        match check_name(name) {
            Ok(()) => None,
            Err(Failure::Wrong(told)) => Some(told),
            Err(Failure::Output(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_policy_has_a_name_that_a_crate_can_have() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for name in ["a", "a1", "a-b_c", "a-", "hot-set", "sdks", "self-made", &longest] {
            assert_eq!(refused(name), None, "{name}");
        }
        let long = format!("{longest}a");
        for name in ["", "1a", "-a", "_a", "A", "aB", "ä", "aß", "a b", "a.b", "a/b", &long] {
            let told = refused(name).unwrap_or_else(|| panic!("'{name}' is taken"));
            assert!(told.contains("use up to 48 lower case letters"), "{told}");
        }
        for (names, why) in [
            (&KEYWORDS[..], "it is a keyword of Rust"),
            (&RESERVED[..], "it is the name of a crate or folder that projects need"),
        ] {
            for name in names {
                // Both ways to write it are one name to the compiler.
                for name in [(*name).to_owned(), name.replace('_', "-")] {
                    let told = refused(&name).unwrap_or_else(|| panic!("'{name}' is taken"));
                    assert!(told.starts_with(&format!("'{name}' cannot name a policy: {why}")));
                }
            }
        }
    }

    #[test]
    fn a_project_says_how_a_policy_of_its_world_is_put_in_charge() {
        let directory = tempfile::tempdir().unwrap();
        for (world, sdk, use_it) in [
            (World::Eviction, "tidegate-plugin", "ALTER CACHE SET POLICY ="),
            (World::CacheAdmission, "tidegate-plugin-decision", "ALTER CACHE SET ADMISSION ="),
            (World::RateLimiter, "tidegate-plugin-decision", "ALTER RATE LIMITER SET POLICY ="),
            (World::ReadAdmission, "tidegate-plugin-decision", "ALTER READ ADMISSION SET POLICY ="),
            (World::LoadShedding, "tidegate-plugin-decision", "ALTER LOAD SHEDDING SET POLICY ="),
            (World::IoPriority, "tidegate-plugin-decision", "ALTER IO PRIORITY SET POLICY ="),
            (World::Compaction, "tidegate-plugin-decision", "ALTER COMPACTION SET POLICY ="),
        ] {
            let folder = directory.path().join(format!("{world:?}")).join("my-own");
            let arguments = NewArguments { folder: folder.clone(), lang: Language::Rust, world };
            let mut out = Vec::new();
            assert!(create(&arguments, &mut out).is_ok(), "{world:?}");
            let told = String::from_utf8(out).unwrap();
            assert!(told.ends_with(&format!("           -c '{use_it} my_own'\n")), "{told}");
            assert!(told.contains("CREATE POLICY my_own FROM 'my_own.wasm'"), "{told}");
            assert!(told.contains("  cargo test "), "{told}");
            let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
            assert!(read("README.md").contains(&format!("{use_it} my_own")), "{world:?}");
            assert!(read("Cargo.toml").contains(&format!("{sdk} = {{ path = \"sdk\" }}")));
            assert!(read("sdk/Cargo.toml").contains(&format!("name = \"{sdk}\"")), "{world:?}");
            assert!(read("src/lib.rs").contains("const NAME: &'static str = \"my-own\";"));
            // A project that is there stays as it is.
            fs::write(folder.join("src/lib.rs"), "changed").unwrap();
            assert!(create(&arguments, &mut Vec::new()).is_err(), "{world:?}");
            assert_eq!(fs::read_to_string(folder.join("src/lib.rs")).unwrap(), "changed");
        }
    }
}
