//! Guests in other languages: each is built by the tools of its own registry, where they are
//! installed; where they are not, the committed component stays and the reason is told.
//!
//! Invariant: tools are named with their version, so equal sources give equal bytes; nothing is
//! written outside of the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_component::StringEncoding;

use crate::{output, read};

/// A guest that is no crate.
pub struct Foreign {
    /// Its folder in plugins/; the component has the same name, with `_` for `-`.
    pub folder: &'static str,
    world: &'static str,
    language: Language,
}

enum Language {
    /// One file in C, by Debian's clang and wasi-libc.
    C(&'static str),
    /// AssemblyScript, by its compiler of the npm registry.
    AssemblyScript,
    /// Python, by Numba of PyPI and LLVM's linker of Debian.
    Python,
}

pub const FOREIGN: [Foreign; 3] = [
    Foreign { folder: "c-clock", world: "eviction-policy", language: Language::C("clock.c") },
    Foreign {
        folder: "assemblyscript-second-touch",
        world: "cache-admission-policy",
        language: Language::AssemblyScript,
    },
    Foreign { folder: "python-sieve", world: "eviction-policy", language: Language::Python },
];

const CLANG: &str = "clang-19";
const LINKER: &str = "wasm-ld-19";
const C_PACKAGES: &str = "apt-get install -y --no-install-recommends clang-19 lld-19 wasi-libc \
                          libclang-rt-19-dev-wasm32";

/// The release of Debian 12: Numba compiles bytecode, which differs between releases.
const PYTHON: &str = "python3.11";
const PYTHON_PACKAGES: &str = "apt-get install -y --no-install-recommends python3.11-venv lld-19";
const NODE_PACKAGES: &str = "Node.js 20 or later, with npm";

/// What became of a build.
pub enum Built {
    /// A core module with the description of its world.
    Module(Vec<u8>),
    /// A tool is not installed: which, and how to get it.
    Absent(String),
}

impl Foreign {
    /// Builds the guest with what is installed, in a folder of `target` of its own.
    ///
    /// Errors: a tool is there and failed.
    pub fn build(&self, plugins: &Path, target: &Path) -> Result<Built, String> {
        let work = target.join("foreign").join(self.folder);
        std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        let source = plugins.join(self.folder);
        let built = match self.language {
            Language::C(file) => self.build_c(&source.join(file), plugins, &work),
            Language::AssemblyScript => self.build_assemblyscript(&source, plugins, &work),
            Language::Python => self.build_python(&source, plugins, &work),
        };
        built.map_err(|error| format!("{}: {error}", self.folder))
    }

    fn build_c(&self, source: &Path, plugins: &Path, work: &Path) -> Result<Built, String> {
        for tool in [CLANG, LINKER] {
            if output(Command::new(tool).arg("--version")).is_none() {
                return Ok(Built::Absent(format!("{tool} is not installed ({C_PACKAGES})")));
            }
        }
        if !Path::new("/usr/include/wasm32-wasi/stdlib.h").exists() {
            return Ok(Built::Absent(format!("wasi-libc is not installed ({C_PACKAGES})")));
        }
        let (mut resolve, world) = contract(plugins, self.world)?;
        let mut files = wit_bindgen_core::Files::default();
        let mut generator = wit_bindgen_c::Opts::default().build();
        generator
            .generate(&mut resolve, world, &mut files)
            .map_err(|error| format!("wit-bindgen: {error:#}"))?;
        for (name, bytes) in files.iter() {
            let file = work.join(name);
            std::fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let bindings = self.world.replace('-', "_");
        let module = work.join("module.wasm");
        let mut clang = Command::new(CLANG);
        clang.args(["--target=wasm32-wasi", "-std=c11", "-O3", "-flto", "-mbulk-memory"]);
        clang.args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
        // A library of functions: nothing to start, nothing of a process is linked.
        clang.args(["-mexec-model=reactor", "-nostartfiles", "-Wl,--no-entry,--strip-all"]);
        clang.arg("-I.").arg(source);
        clang.arg(format!("{bindings}.c")).arg(format!("{bindings}_component_type.o"));
        clang.arg("-o").arg(&module).current_dir(work);
        finish(clang)?;
        Ok(Built::Module(read(&module)?))
    }

    fn build_assemblyscript(
        &self,
        source: &Path,
        plugins: &Path,
        work: &Path,
    ) -> Result<Built, String> {
        for tool in ["node", "npm"] {
            if output(Command::new(tool).arg("--version")).is_none() {
                return Ok(Built::Absent(format!("{tool} is not installed ({NODE_PACKAGES})")));
            }
        }
        for file in ["package.json", "package-lock.json", "asconfig.json", "names.js"] {
            copy(&source.join(file), &work.join(file))?;
        }
        copy_folder(&source.join("assembly"), &work.join("assembly"))?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]);
        npm.current_dir(work);
        finish(npm)?;
        let mut compiler = Command::new("node");
        compiler.args(["node_modules/assemblyscript/bin/asc.js", "--target", "release"]);
        compiler.current_dir(work);
        finish(compiler)?;
        self.describe(read(&work.join("build/module.wasm"))?, plugins)
    }

    fn build_python(&self, source: &Path, plugins: &Path, work: &Path) -> Result<Built, String> {
        if output(Command::new(PYTHON).args(["-c", "import ensurepip, venv"])).is_none() {
            return Ok(Built::Absent(format!("{PYTHON} is not installed ({PYTHON_PACKAGES})")));
        }
        if output(Command::new(LINKER).arg("--version")).is_none() {
            return Ok(Built::Absent(format!("{LINKER} is not installed ({PYTHON_PACKAGES})")));
        }
        let sources = work.join("source");
        copy_folder(source, &sources)?;
        let mut venv = Command::new(PYTHON);
        venv.args(["-m", "venv", "venv"]).current_dir(work);
        finish(venv)?;
        let python = work.join("venv/bin/python");
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        pip.arg(sources.join("requirements.txt"));
        finish(pip)?;
        let mut numba = Command::new(&python);
        numba.args(["-B", "build.py", "../module.o", "../exports.txt"]);
        // Names of functions come from hashes of what is in sets here and there.
        numba.env("PYTHONHASHSEED", "0").current_dir(&sources);
        finish(numba)?;
        let mut linker = Command::new(LINKER);
        // The first page is what build.py was promised for stack and constants, and no more.
        linker.args(["--no-entry", "--strip-all", "--stack-first", "-zstack-size=16384"]);
        linker.args(["--initial-memory=65536", "@exports.txt", "module.o", "-o", "module.wasm"]);
        linker.current_dir(work);
        finish(linker)?;
        self.describe(read(&work.join("module.wasm"))?, plugins)
    }

    /// Adds the description of the world to a module that was built without one.
    fn describe(&self, mut module: Vec<u8>, plugins: &Path) -> Result<Built, String> {
        let (resolve, world) = contract(plugins, self.world)?;
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .map_err(|error| format!("describing the module: {error:#}"))?;
        Ok(Built::Module(module))
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

/// Copies the files of a folder, not its folders; what else is in `to` is removed.
fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    if to.exists() {
        std::fs::remove_dir_all(to).map_err(failed)?;
    }
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_file() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The contract of a world.
fn contract(plugins: &Path, world: &str) -> Result<(Resolve, WorldId), String> {
    let folder = plugins.with_file_name("wit").join("v0.1");
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error:#}", folder.display());
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(&folder).map_err(|error| wrong(&error))?;
    let world = resolve.select_world(&[package], Some(world)).map_err(|error| wrong(&error))?;
    Ok((resolve, world))
}

/// Runs a tool to its end.
fn finish(mut tool: Command) -> Result<(), String> {
    let name = PathBuf::from(tool.get_program());
    match tool.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", name.display())),
        Err(error) => Err(format!("starting {}: {error}", name.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("plugins/ is the folder above")
    }

    #[test]
    fn every_world_of_the_contract_can_be_read() {
        for world in [
            "eviction",
            "cache-admission",
            "rate-limiter",
            "read-admission",
            "load-shedding",
            "io-priority",
            "compaction",
        ] {
            let world = format!("{world}-policy");
            assert!(contract(plugins(), &world).is_ok(), "{:?}", contract(plugins(), &world).err());
        }
        assert!(contract(plugins(), "tides-policy").is_err());
    }
}
