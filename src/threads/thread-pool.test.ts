import { afterEach, beforeEach, expect, test } from "bun:test";
import { ApiError } from "../errors.ts";
import { JobLimitError } from "./job-limit-error.ts";
import type { TestJob } from "./thread-pool.test-support.ts";
import { ThreadPool, type ThreadPoolLimits } from "./thread-pool.ts";

const MiB = 1024 * 1024;
const LIMITS = {
  jobCpuMs: 150,
  jobMs: 20_000,
  jobMemoryBytes: 256 * MiB,
  waitingMax: 4,
  ownerShare: 1 / 2,
  checkMs: 5,
  idleMs: 60_000,
};

let pool: ThreadPool<TestJob, Uint8Array<ArrayBuffer>>;

function openPool({
  shortJobBytesMax,
  ...change
}: Partial<ThreadPoolLimits> & { shortJobBytesMax?: number } = {}) {
  return new ThreadPool<TestJob, Uint8Array<ArrayBuffer>>({
    ...(shortJobBytesMax === undefined ? {} : { shortJobBytesMax }),
    limits: { ...LIMITS, ...change },
    startWorker: () => new Worker(new URL("./thread-pool.test-support.ts", import.meta.url).href),
    monotonicMs: () => performance.now(),
  });
}

beforeEach(() => {
  pool = openPool();
});
afterEach(() => pool.close());

interface Options {
  readonly owner?: string;
  readonly bytes?: number;
  onOpen?(): void;
}

function run(work: TestJob["work"], { owner = "a", bytes = 1, onOpen }: Options = {}) {
  return pool.run({
    owner,
    bytes,
    async open() {
      onOpen?.();
      const content = new Uint8Array([1, 2, 3]);
      return { job: { work, bytes: content }, transfer: [content.buffer] };
    },
  });
}

/** The reason for which the job ended. */
const reason = (job: Promise<unknown>) =>
  job.then(
    () => "done",
    (error: unknown) =>
      error instanceof JobLimitError ? error.limit : error instanceof ApiError ? error.code : String(error),
  );

test("a job returns its bytes, again and again on the same thread", async () => {
  for (let count = 0; count < 3; count++) expect(await run("echo")).toEqual(new Uint8Array([1, 2, 3]));
});

test.each(["loop", "parse"] as const)(
  "a job that uses too much CPU time is ended in %s, and the next one is served",
  async (work) => {
    expect(await reason(run(work))).toBe("time");
    expect(await reason(run("echo"))).toBe("done");
  },
);

test("a job that uses too much memory is ended, and the process lives", async () => {
  pool.close();
  pool = openPool({ jobCpuMs: 20_000 });
  expect(await reason(run("grow"))).toBe("memory");
  expect(await reason(run("echo"))).toBe("done");
});

test("the error that a job throws for the client arrives with its code and its parameter", async () => {
  const error = await run("refuse").catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ code: "invalid_value", message: "No.", param: "input" });
});

test("a fault of a job fails this job alone", async () => {
  expect(await reason(run("fail"))).toContain("a fault");
  expect(await reason(run("echo"))).toBe("done");
});

test("owners take turns, and a waiting job is not opened", async () => {
  const order: string[] = [];
  const add = (owner: string) => run("echo", { owner, onOpen: () => order.push(owner) });
  const jobs = [add("a"), add("a"), add("a"), add("b")];
  expect(order).toEqual(["a"]);
  await Promise.all(jobs);
  expect(order).toEqual(["a", "a", "b", "a"]);
});

test("an owner cannot fill the waiting list, and a full list rejects", async () => {
  const jobs = ["a", "a", "a", "a", "b", "b", "c"].map((owner) => reason(run("echo", { owner })));
  expect(await Promise.all(jobs)).toEqual(["done", "done", "done", "waiting", "done", "done", "waiting"]);
});

test("a short job does not wait for the long ones", async () => {
  pool.close();
  pool = openPool({ shortJobBytesMax: 10, jobCpuMs: 300 });
  const long = reason(run("loop", { bytes: 100 }));
  const nextLong = reason(run("echo", { bytes: 100 }));
  expect(
    await Promise.race([reason(run("echo", { owner: "b", bytes: 10 })), nextLong.then(() => "late")]),
  ).toBe("done");
  expect(await Promise.all([long, nextLong])).toEqual(["time", "done"]);
});

test("a closed pool rejects its jobs", async () => {
  const jobs = [reason(run("loop")), reason(run("echo"))];
  pool.close();
  jobs.push(reason(run("echo")));
  expect(await Promise.all(jobs)).toEqual(["closed", "closed", "closed"]);
});

test("a thread that is not used is ended, and the next job starts another", async () => {
  pool.close();
  pool = openPool({ idleMs: 20 });
  expect(await reason(run("echo"))).toBe("done");
  await Bun.sleep(60);
  expect(await reason(run("echo"))).toBe("done");
});
