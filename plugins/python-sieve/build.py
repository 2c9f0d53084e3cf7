"""Compiles the exports with Numba and lowers them to an object file for wasm32.

    python build.py module.o names.txt

Numba compiles for the machine it runs on. What it is asked for here, before its optimizer, depends on
the machine only in the name of the target; LLVM, which comes with it, is told another one.
"""

import os
import re
import sys

# Read when Numba is imported: no optimizer, no instructions of this processor.
os.environ.update(NUMBA_OPT="0", NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
os.environ.update(NUMBA_LOOP_VECTORIZE="0", NUMBA_SLP_VECTORIZE="0")

import llvmlite.binding as llvm
from numba import cfunc, types

from exports import EXPORTS
from memory import EXTERNAL

TARGET = "wasm32-unknown-unknown"

# What the names of memory.EXTERNAL are on this target.
DEFINED = """
declare i32 @llvm.wasm.memory.size.i32(i32)
declare i32 @llvm.wasm.memory.grow.i32(i32, i32)
declare void @llvm.trap()
declare void @host_log(i32, ptr, i32) "wasm-import-module"="tidegate:policy/host@0.1.0" "wasm-import-name"="log"
define i32 @memory_size() alwaysinline {
  %pages = call i32 @llvm.wasm.memory.size.i32(i32 0)
  ret i32 %pages
}
define i32 @memory_grow(i32 %pages) alwaysinline {
  %before = call i32 @llvm.wasm.memory.grow.i32(i32 0, i32 %pages)
  ret i32 %before
}
define void @trap() alwaysinline {
  call void @llvm.trap()
  unreachable
}
"""


def machine():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TARGET)
    return target.create_target_machine(features="+bulk-memory", opt=3, reloc="static")


def lowered(name, signature, function, header):
    """One export as a module of the other target."""
    compiled = cfunc(signature, _nrt=False)(function)
    code = compiled._library.get_llvm_str()
    code = re.sub(r"^target .*\n", "", code, flags=re.M)
    if signature.return_type is not types.void:
        code = code.replace(f"@{compiled.native_name}(", f'@"{name}"(')
    else:
        # To Numba a function without a result returns a null pointer.
        values = ", ".join(f"i{of.bitwidth} %{at}" for at, of in enumerate(signature.args))
        call = f"call ptr @{compiled.native_name}({values})"
        code += f'\ndefine void @"{name}"({values}) {{\n  %unused = {call}\n  ret void\n}}\n'
    return llvm.parse_assembly(header + code)


def main(object_file, names_file):
    # Numba makes its own code ready to run, which it never does: any address will do.
    for name in EXTERNAL:
        llvm.add_symbol(name, 1)
    wasm = machine()
    header = f'target datalayout = "{wasm.target_data}"\ntarget triple = "{TARGET}"\n'
    module = llvm.parse_assembly(header + DEFINED)
    for name, signature, function in EXPORTS:
        module.link_in(lowered(name, signature, function, header))
    names = [name for name, _, _ in EXPORTS]
    for item in [*module.functions, *module.global_variables]:
        if not item.is_declaration and item.name not in names:
            item.linkage = llvm.Linkage.internal
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    passes = llvm.create_pass_builder(wasm, options)
    passes.getModulePassManager().run(module, passes)
    with open(object_file, "wb") as file:
        file.write(wasm.emit_object(module))
    with open(names_file, "w") as file:
        file.write("".join(f"--export={name}\n" for name in names))


if __name__ == "__main__":
    main(*sys.argv[1:])
