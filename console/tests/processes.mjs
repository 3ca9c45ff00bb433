/** Processes and folders of the tests. Those that remain when a test file ends are ended and removed, whatever ended it. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const running = new Set();
const folders = new Set();

process.on("exit", () => {
  for (const it of running) it.kill("SIGKILL");
  for (const it of folders) rmSync(it, { recursive: true, force: true, maxRetries: 5 });
});
// A signal alone ends a process without its handlers of `exit`. The runner sends one after its time limit.
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
])
  process.on(signal, () => process.exit(code));

/** Starts a process that ends with the test file at the latest. */
export function start(file, args, options) {
  const it = spawn(file, args, options);
  running.add(it);
  it.once("exit", () => running.delete(it));
  return it;
}

/** Waits for the end of a process, which must be a success. */
export async function success(it) {
  const code = await new Promise((done, fail) => it.once("exit", done).once("error", fail));
  if (code !== 0) throw new Error(`${it.spawnargs.join(" ")} ended with ${code ?? it.signalCode}`);
}

/** Ends a process, if it was started and still runs, and waits until it is gone. */
export async function end(it, how = (process) => process.kill("SIGKILL")) {
  if (!it || it.exitCode !== null || it.signalCode !== null) return;
  const gone = new Promise((done) => it.once("exit", done));
  how(it);
  await gone;
}

/** Creates a temporary folder that is removed with the test file at the latest. */
export function newFolder(name) {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  folders.add(folder);
  return folder;
}

export function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  folders.delete(folder);
}
