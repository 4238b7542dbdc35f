/** Worker thread that executes operations on files, with its own connection to the database. See `file-thread.ts`. */

import { openInThread } from "../../config/installation/installation.ts";
import { serveJobs } from "../../threads/serve-jobs.ts";
import { asRejection } from "../rejections.ts";
import { runFileOperation } from "./file-operations.ts";
import type { FileJob } from "./file-thread.ts";

serveJobs<FileJob, Uint8Array<ArrayBuffer>>(async ({ source, operation, author }) => {
  const installation = await openInThread(source);
  try {
    const response = await runFileOperation(installation, operation, author);
    const bytes = new TextEncoder().encode(JSON.stringify(response));
    return { result: bytes, transfer: [bytes.buffer] };
  } catch (thrown) {
    const error = asRejection(thrown);
    throw error.status === 500 ? thrown : error;
  } finally {
    await installation.db.close();
  }
});
