/** A deployment for the tests: `turnfold api` and workers as processes, over PostgreSQL and Redis of their own. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { Engine, TURNFOLD, until } from "./harness.mjs";
import { freePort } from "./ports.mjs";
import { end, newFolder, removeFolder, start, success } from "./processes.mjs";

/** Starts PostgreSQL and Redis, and ends them when its standard input ends. */
const SERVERS = join(dirname(TURNFOLD), "servers");
assert.ok(existsSync(SERVERS), `${SERVERS} does not exist; hint: cargo build -p test-servers`);

export class Deployment extends Engine {
  /** Starts an API and these workers, with the configuration of `turnfold demo`. */
  static async start(workers) {
    const it = new Deployment();
    it.folder = newFolder("deployment");
    it.workers = new Map();
    try {
      await it.begin(workers);
    } catch (error) {
      await it.stop();
      throw error;
    }
    return it;
  }

  async begin(workers) {
    this.servers = start(SERVERS, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: this.servers.stdout })[Symbol.asyncIterator]();
    const [store, queue] = [(await lines.next()).value, (await lines.next()).value];
    this.port = await freePort();
    this.url = `http://127.0.0.1:${this.port}`;
    this.args = ["--config", "demo/turnfold.toml"];
    await this.command(process.env, "demo", "--folder", "demo");
    this.env = {
      ...process.env,
      TURNFOLD__STORE__URL: store,
      TURNFOLD__QUEUE__URL: queue,
      // The jobs of a killed worker are soon taken over, but not before a page has been seen to say so.
      TURNFOLD__QUEUE__LEASE_SECONDS: "9",
      TURNFOLD__QUEUE__SWEEP_SECONDS: "1",
      TURNFOLD__API__LISTEN: `127.0.0.1:${this.port}`,
    };
    await this.command(this.env, ...this.args, "migrate");
    await this.run();
    for (const name of workers) await this.work(name);
  }

  /** Runs a command to its end. */
  command(env, ...args) {
    return success(start(TURNFOLD, args, { cwd: this.folder, env, stdio: ["ignore", "ignore", "inherit"] }));
  }

  /** Starts the API, also after `kill`. */
  async run() {
    this.process = this.spawn("api");
    await until(async () => (await fetch(`${this.url}/readyz`)).ok);
  }

  /** Starts a worker and waits until it has reported. */
  async work(name) {
    this.workers.set(name, this.spawn("worker", "--set", `worker.name=${name}`));
    await until(async () => (await this.api("GET", "/v1/workers")).data.some((it) => it.name === name));
  }

  spawn(...args) {
    return start(TURNFOLD, [...this.args, ...args], { cwd: this.folder, env: this.env, stdio: "ignore" });
  }

  /** Kills a worker and waits until it is gone. */
  async killWorker(name) {
    await end(this.workers.get(name));
    this.workers.delete(name);
  }

  async stop() {
    for (const name of [...this.workers.keys()]) await this.killWorker(name);
    await end(this.process);
    await end(this.servers, (it) => it.stdin.end());
    removeFolder(this.folder);
  }
}
