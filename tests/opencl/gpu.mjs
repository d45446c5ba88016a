// WebGPU for Node, as far as generated modules call it: commands are noted, and Python's wgpu runs
// them when somebody waits for a buffer. Prints what the test of a module says.
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";

const [, , module, python, replay] = process.argv;
const bits = ["MAP_READ", "MAP_WRITE", "COPY_SRC", "COPY_DST", "INDEX", "VERTEX", "UNIFORM", "STORAGE"];
globalThis.GPUBufferUsage = Object.fromEntries(bits.map((name, i) => [name, 1 << i]));
globalThis.GPUMapMode = { READ: 1 };

const commands = [];
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

function createBuffer({ size, usage }) {
  const id = commands.filter(([what]) => what === "buffer").length;
  commands.push(["buffer", size, usage]);
  return {
    id,
    size,
    destroy() {},
    async mapAsync() {
      commands.push(["read", id]);
      const input = JSON.stringify(commands);
      this.data = Buffer.from(execFileSync(python, [replay], { input, encoding: "utf-8" }), "base64");
    },
    getMappedRange() {
      return new Uint8Array(this.data).buffer;
    },
  };
}

function createCommandEncoder() {
  const noted = [];
  return {
    beginComputePass() {
      const now = {};
      return {
        setPipeline: (pipeline) => (now.entry = pipeline.entry),
        setBindGroup: (_, group) => (now.group = group),
        dispatchWorkgroups: (...groups) => noted.push(["launch", now.entry, now.group, groups]),
        end() {},
      };
    },
    copyBufferToBuffer: (from, start, to, place, size) =>
      noted.push(["copy", from.id, start, to.id, place, size]),
    finish: () => noted,
  };
}

const device = {
  createShaderModule: ({ code }) => commands.push(["code", code]),
  createBuffer,
  createCommandEncoder,
  createComputePipeline: ({ compute }) => ({ entry: compute.entryPoint, getBindGroupLayout: () => 0 }),
  createBindGroup: ({ entries }) => entries.map(({ binding, resource }) => [binding, resource.buffer.id]),
  queue: {
    writeBuffer: (buffer, place, bytes) => commands.push(["write", buffer.id, place, base64(bytes)]),
    submit: (all) => commands.push(...all.flat()),
  },
};
const adapter = {
  requestDevice: async ({ requiredFeatures }) => (commands.push(["device", requiredFeatures]), device),
};
const { test } = await import(pathToFileURL(module));
const [sentence, right] = await test({ requestAdapter: async () => adapter });
console.log(sentence);
process.exit(right ? 0 : 1);
