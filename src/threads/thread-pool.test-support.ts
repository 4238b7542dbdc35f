/** Worker of the tests of the pool. */

import { ApiError } from "../errors.ts";
import { serveJobs } from "./serve-jobs.ts";

export interface TestJob {
  readonly work: "echo" | "loop" | "parse" | "grow" | "refuse" | "fail";
  readonly bytes: Uint8Array<ArrayBuffer>;
}

serveJobs<TestJob, Uint8Array<ArrayBuffer>>(({ work, bytes }) => {
  const kept: unknown[] = [];
  switch (work) {
    case "echo":
      return { result: bytes, transfer: [bytes.buffer] };
    case "loop":
      for (;;) kept.length = 0;
    case "parse":
      for (;;) JSON.parse(`[${"1,".repeat(1_000_000)}1]`);
    case "grow":
      for (;;) kept.push(new Uint8Array(1 << 20).fill(1));
    case "refuse":
      throw new ApiError("invalid_value", "No.", { param: "input" });
    case "fail":
      throw new TypeError("a fault");
  }
});
