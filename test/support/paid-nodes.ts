/** Gateway processes that share a database and a simulator, with a user who pays for background responses. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import type { Nano } from "../../src/money/nano.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { eventually } from "./eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { type BillingRecords, bill, openBillingRecords, PRICE, paidFile } from "./paid-gateway.ts";
import { TEST_KEY } from "./running-gateway.ts";

/** Models whose background responses end soon, begin late, and do not end within a test. */
export const BACKGROUND_MODELS = {
  paid: "sim-fast@background=2s,bytes=4000",
  late: "sim-fast@first=1500ms,background=2s,bytes=4000",
  endless: "sim-fast@background=600s",
};

export interface BegunResponse {
  readonly requestId: string;
  readonly id: string;
}

interface ResponseObject {
  readonly id: string;
  readonly status: string;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number } | null;
}

const USUAL_FILE = paidFile({ balance: "100", models: BACKGROUND_MODELS });

interface NodesSetup {
  readonly databaseUrl: string;
  readonly db: Db;
  readonly file: string;
}

export class PaidNodes {
  readonly simulator: Simulator = startSimulator({ tokens: "o200k", record: "full" });
  readonly records: BillingRecords;
  readonly db: Db;
  readonly #folder: string;
  readonly #databaseUrl: string;
  readonly #file: string;
  readonly #running = new Set<GatewayProcess>();

  private constructor(folder: string, { databaseUrl, db, file }: NodesSetup) {
    this.#folder = folder;
    this.#file = file;
    this.#databaseUrl = databaseUrl;
    this.db = db;
    this.records = openBillingRecords(db);
  }

  /** Without an address the nodes run one after the other, on a SQLite file. */
  static async open(databaseUrl?: string, file = USUAL_FILE): Promise<PaidNodes> {
    const folder = mkdtempSync(join(tmpdir(), "model-gateway-paid-nodes-"));
    const url = databaseUrl ?? `sqlite:${join(folder, "gateway.db")}`;
    return new PaidNodes(folder, { databaseUrl: url, db: await openDb(url), file });
  }

  /** Nodes with the same name have the same data folder. */
  async start(name: string, program?: string): Promise<GatewayProcess> {
    const folder = join(this.#folder, name);
    mkdirSync(folder, { recursive: true });
    await Bun.write(join(folder, "gateway.yaml"), this.#file);
    const node = await startGatewayProcess({
      folder,
      args: ["--config", "gateway.yaml"],
      env: {
        DATABASE_URL: this.#databaseUrl,
        MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
        SIMULATOR_URL: this.simulator.url,
        DRAIN_DELAY: "100ms",
      },
      ...(program === undefined ? {} : { program }),
    });
    this.#running.add(node);
    return node;
  }

  async kill(node: GatewayProcess): Promise<void> {
    process.kill(node.pid, "SIGKILL");
    await node.exited;
    this.#running.delete(node);
  }

  async stop(node: GatewayProcess): Promise<void> {
    this.#running.delete(node);
    const code = await node.stop();
    if (code !== 0) throw new Error(`the node ended with ${code}:\n${node.output()}`);
  }

  async close(): Promise<void> {
    for (const node of this.#running) await node.stop();
    await this.simulator.stop();
    await this.db.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  call(node: GatewayProcess, method: string, path: string, body?: object): Promise<Response> {
    return fetch(`${node.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  async begin(node: GatewayProcess, model: keyof typeof BACKGROUND_MODELS = "paid"): Promise<BegunResponse> {
    const body = { model, input: "Hello", background: true };
    const response = await this.call(node, "POST", "/responses", body);
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
    const { id } = JSON.parse(text) as ResponseObject;
    return { requestId: response.headers.get("x-request-id") ?? "", id };
  }

  async status(node: GatewayProcess, { id }: BegunResponse): Promise<string> {
    const response = await this.call(node, "GET", `/responses/${id}`);
    const json = (await response.json()) as Partial<ResponseObject>;
    return json.status ?? String(response.status);
  }

  async waitForEnd(node: GatewayProcess, begun: BegunResponse): Promise<void> {
    await eventually(() => this.status(node, begun), { equals: "completed" });
  }

  /** The price of a complete response, computed from the usage that the simulator itself reports. */
  async price({ id }: BegunResponse): Promise<Nano> {
    const { usage } = await eventually(async () => {
      const response = await fetch(`${this.simulator.url}/responses/${id}`);
      const json = (await response.json()) as ResponseObject;
      return json.status === "completed" ? json : null;
    });
    return bill([
      [usage?.input_tokens ?? 0, PRICE.input],
      [usage?.output_tokens ?? 0, PRICE.output],
    ]);
  }

  /** The upstream forgets the response. */
  async forget({ id }: BegunResponse): Promise<void> {
    await fetch(`${this.simulator.url}/responses/${id}`, { method: "DELETE" });
  }
}
