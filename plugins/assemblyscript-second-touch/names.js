// Gives the exports the names of the contract: an identifier cannot hold them.
//
// `admission_admit_batch` becomes `tidegate:policy/cache-admission@0.1.0#admit-batch`.

import { Transform } from "assemblyscript/transform";

const INTERFACES = {
  lifecycle_: "tidegate:policy/lifecycle@0.1.0#",
  admission_: "tidegate:policy/cache-admission@0.1.0#",
};

export default class Names extends Transform {
  afterCompile(module) {
    const places = Array.from({ length: module.getNumExports() }, (_, at) => at);
    const exports = places.map((at) => this.binaryen.getExportInfo(module.getExportByIndex(at)));
    for (const { name, value } of exports) {
      const prefix = Object.keys(INTERFACES).find((prefix) => name.startsWith(prefix));
      if (!prefix) continue;
      const called = name.slice(prefix.length).replaceAll("_", "-");
      module.removeExport(name);
      module.addFunctionExport(value, INTERFACES[prefix] + called);
    }
  }
}
