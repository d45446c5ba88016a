// Runs a program of WASI, as clang makes them for wasm32-wasi, in node; exits as the program does.
import { readFile } from "node:fs/promises";
import { setFlagsFromString } from "node:v8";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1", returnOnExit: true });
const program = await readFile(process.argv[2]);
// node 20 has relaxed SIMD, but not unasked.
if (!WebAssembly.validate(program)) setFlagsFromString("--experimental-wasm-relaxed-simd");
const module = await WebAssembly.compile(program);
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
