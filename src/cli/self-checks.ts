/**
 * The checks of `selftest`. Each uses a part of the program that is a separate file: a worker thread, the tokenizer's
 * vocabulary, the migrations, the built pages. A package that lacks one of them would fail only under load.
 */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import { wholeBytesPart } from "../base/parts.ts";
import { startHourlyReconciliation } from "../billing/maintenance/hourly-reconciliation.ts";
import { CaptureThread } from "../capture/capture-thread.ts";
import { createDataKey } from "../capture/sealed-content.ts";
import { readSettings } from "../config/installation/environment.ts";
import { openInstallation } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { SYSTEM_AUTHOR } from "../config/plan/apply.ts";
import { FileThread } from "../console-api/files/file-thread.ts";
import { BodyInspector } from "../gateway/bodies/body-inspector.ts";
import { InputCounter } from "../gateway/metering/count-input.ts";
import { loadTokenizer } from "../gateway/metering/tokenizer.ts";
import { RecordSealer } from "../gateway/stored-responses/record-sealer.ts";
import { TranslationThreads } from "../gateway/translation/translation-threads.ts";
import { BUILT_DIR } from "../main.ts";
import { openLog } from "../observe/log.ts";
import { CHAT_COMPLETIONS } from "../protocols/chat/chat-endpoint.ts";
import { FrameInspector } from "../responses-websocket/frame-inspector.ts";
import { deriveContentKeyring, openTemporaryKeyring } from "../secrets/keyring.ts";
import { openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { openWalCheckpointer } from "../store/engine/wal-checkpointer.ts";

export interface SelfCheck {
  readonly name: string;
  /** The worker thread that the check starts, by the name of its file. */
  readonly worker?: string;
  /** Resolves to what was found; rejects with what is wrong. */
  run(folder: string): Promise<string>;
}

export const SELF_CHECKS: readonly SelfCheck[] = [
  { name: "pages", run: checkPages },
  { name: "tokenizer", run: checkTokenizer },
  { name: "database", run: checkDatabase },
  { name: "thread for configuration files", worker: "file-worker.ts", run: checkFileThread },
  { name: "thread for token counts", worker: "count-worker.ts", run: checkCountThread },
  { name: "thread for long bodies", worker: "body-inspector-worker.ts", run: checkBodyThread },
  { name: "thread for long frames", worker: "frame-inspector-worker.ts", run: checkFrameThread },
  { name: "thread for translations", worker: "translation-worker.ts", run: checkTranslationThread },
  { name: "thread for stored responses", worker: "record-worker.ts", run: checkRecordThread },
  { name: "thread for captures", worker: "capture-worker.ts", run: checkCaptureThread },
  { name: "thread for checkpoints", worker: "wal-checkpoint-worker.ts", run: checkCheckpointThread },
  { name: "thread for reports", worker: "sqlite-reader-worker.ts", run: checkReportThread },
  { name: "thread for the audit", worker: "reconciliation-worker.ts", run: checkAuditThread },
];

const STARTED = "started and answered";

async function checkPages(): Promise<string> {
  const sites = ["console", "explorer", "docs"];
  const missing = sites.filter((name) => !existsSync(join(BUILT_DIR, name, "index.html")));
  require(missing.length === 0, `not built: ${missing.join(", ")}. In a clone, run npm run build.`);
  return sites.join(", ");
}

async function checkTokenizer(): Promise<string> {
  const tokens = (await loadTokenizer()).count("The quick brown fox");
  require(tokens === 4, `counts ${tokens} tokens where there are 4`);
  return "counts tokens";
}

async function checkDatabase(folder: string): Promise<string> {
  const db = await openDb(storeUrl(folder));
  try {
    const { to } = await migrate(db);
    return `SQLite, schema ${to}`;
  } finally {
    await db.close();
  }
}

async function checkFileThread(folder: string): Promise<string> {
  const settings = readSettings({ flags: { data: join(folder, "files") }, environment: {} });
  if (!settings.ok) throw new Error(settings.problems.join(" "));
  const installation = await openInstallation(settings.settings, {});
  const files = new FileThread({ installation, limits: limits.fileThread });
  try {
    // Shorter texts are read without the thread.
    const operation = { kind: "plan", text: `# ${"x".repeat(150_000)}`, prune: false } as const;
    await files.run(operation, SYSTEM_AUTHOR);
    return STARTED;
  } finally {
    files.close();
    await installation.db.close();
  }
}

async function checkCountThread(): Promise<string> {
  // Shorter bodies are counted without the thread.
  const content = "word ".repeat(60_000);
  const body = encode({ model: "m", messages: [{ role: "user", content }] });
  const { monotonicMs } = systemClock;
  const counter = new InputCounter({ limits: limits.tokenCountThread, monotonicMs });
  try {
    const tokens = await counter.countBody({ body, output: "text", owner: "selftest" });
    require(tokens >= 60_000 && tokens < 61_000, `counts ${tokens} tokens where there are about 60,000`);
    return STARTED;
  } finally {
    counter.close();
  }
}

async function checkBodyThread(): Promise<string> {
  const inspector = new BodyInspector({
    jsonLimits: { depthMax: limits.jsonDepthMax, modelNameCharsMax: limits.modelNameCharsMax },
    threadLimits: limits.inspectionThreads,
    monotonicMs: systemClock.monotonicMs,
  });
  try {
    const bytes = encode({ model: "m", messages: [{ role: "user", content: "Hello" }] });
    await inspector.inspect({ bytes, endpoint: CHAT_COMPLETIONS, owner: "selftest" });
    return STARTED;
  } finally {
    inspector.close();
  }
}

async function checkFrameThread(): Promise<string> {
  const inspector = new FrameInspector({
    depthMax: limits.jsonDepthMax,
    echoBytesMax: limits.socketWarmUpEchoBytesMax,
    threadLimits: limits.inspectionThreads,
    monotonicMs: systemClock.monotonicMs,
  });
  try {
    const frame = await inspector.read(
      encode({ type: "response.create", model: "m", input: "Hello" }),
      "selftest",
    );
    require(frame.kind === "create", `read a frame as ${frame.kind}`);
    return STARTED;
  } finally {
    inspector.close();
  }
}

async function checkTranslationThread(): Promise<string> {
  const threads = new TranslationThreads({
    limits: limits.translationThreads,
    keyring: openTemporaryKeyring(),
    monotonicMs: systemClock.monotonicMs,
  });
  try {
    const { textCount } = await threads.translateEmbeddings({
      owner: "selftest",
      body: wholeBytesPart(encode({ model: "m", input: ["Hello"] })),
      terms: { to: "google", upstreamModel: "m" },
    });
    require(textCount === 1, `translated ${textCount} texts where there is 1`);
    return STARTED;
  } finally {
    threads.close();
  }
}

async function checkRecordThread(): Promise<string> {
  const keyring = deriveContentKeyring(new Uint8Array(32));
  // Without the bound, short content is sealed and opened without the thread.
  const threadLimits = { ...limits.recordThreads, inlineBytesMax: 0 };
  const sealer = new RecordSealer({ keyring, limits: threadLimits, monotonicMs: systemClock.monotonicMs });
  const turn = encode({ text: "selftest" });
  const record = { responseId: "resp_selftest", previousId: null, keyId: "selftest", owner: "selftest" };
  const stored = { ...record, atMs: 0, tokens: null, memoryBytes: turn.length, turn };
  try {
    const row = await sealer.seal(stored, Number.POSITIVE_INFINITY);
    const opened = row === null ? null : await sealer.open([row], "selftest");
    require(opened?.[0]?.turn.length === turn.length, "did not open what it has sealed");
    return STARTED;
  } finally {
    sealer.close();
  }
}

async function checkCaptureThread(): Promise<string> {
  const thread = new CaptureThread(limits.captureThread, systemClock.monotonicMs);
  const request = {
    method: "POST",
    path: "/v1/responses",
    transport: "http",
    headers: [],
    body: null,
  } as const;
  const response = { status: 200, stream: false, body: null, isComplete: true };
  try {
    const content = await thread.seal({
      requestId: "selftest",
      draft: { request, attempts: [], response },
      rules: { secrets: [], patterns: [] },
      dataKey: createDataKey(),
    });
    require(content !== "", "returned no content");
    return STARTED;
  } finally {
    thread.close();
  }
}

/** The checkpointer ignores failures of its thread, so the database file itself must show the result. */
async function checkCheckpointThread(folder: string): Promise<string> {
  const mark = `selftest ${Bun.randomUUIDv7()}`;
  const db = await openDb(storeUrl(folder));
  const checkpointer = openWalCheckpointer(storeUrl(folder));
  try {
    await db.sql`CREATE TABLE selftest (mark TEXT NOT NULL)`;
    await db.sql`INSERT INTO selftest (mark) VALUES (${mark})`;
    await checkpointer.checkpoint();
    await checkpointer.close();
    require(readFileSync(storeFile(folder)).includes(mark), "did not checkpoint the write-ahead log");
    return STARTED;
  } finally {
    await db.close();
  }
}

async function checkReportThread(folder: string): Promise<string> {
  const db = await openDb(storeUrl(folder));
  try {
    const [row] = await db.reports.sql`SELECT 1 AS one`;
    require(row?.one === 1, "did not read the database");
    return STARTED;
  } finally {
    await db.close();
  }
}

async function checkAuditThread(folder: string): Promise<string> {
  const lines: string[] = [];
  const log = openLog(systemClock.nowMs, (line) => void lines.push(line));
  const reconciliation = startHourlyReconciliation({
    databaseUrl: storeUrl(folder),
    log,
    everyMs: 3_600_000,
    holdAgeMaxMs: 3_600_000,
    faults: { add() {} },
    // This process is the only one on the database, so the job needs no lease.
    runJob: (work) => work({ name: "selftest", fence: 1, check: async () => {} }),
  });
  try {
    await reconciliation.run();
    require(lines.join("").includes('"audit_passed"'), `reported ${lines.join("").trim()}`);
    return STARTED;
  } finally {
    reconciliation.stop();
  }
}

function require(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

const storeFile = (folder: string) => join(folder, "selftest.db");
const storeUrl = (folder: string) => `sqlite:${storeFile(folder)}`;

/** In a separate buffer, which can be moved to a thread. */
function encode(value: object): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(value));
}
