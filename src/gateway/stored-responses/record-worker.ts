/** Worker that seals and opens the content of long stored responses. See `record-sealer.ts`. */

import type { Keyring } from "../../secrets/keyring.ts";
import { seal } from "../../secrets/seal.ts";
import { type JobResult, serveJobs } from "../../threads/serve-jobs.ts";
import { type ContentKey, ownBuffer, type RecordJob, type RecordJobResult } from "./record-sealer.ts";
import { openTurn } from "./response-record.ts";

serveJobs<RecordJob, RecordJobResult>((job): JobResult<RecordJobResult> => {
  const keyring = openJobKeyring(job.key);
  if (job.kind === "seal")
    return { result: { kind: "seal", sealed: seal(keyring, job.binding, job.content) }, transfer: [] };
  const turns = job.rows.map((row) => {
    const turn = openTurn(keyring, row);
    return turn === null ? null : ownBuffer(turn);
  });
  return { result: { kind: "open", turns }, transfer: turns.flatMap((turn) => turn?.buffer ?? []) };
});

function openJobKeyring({ kid: activeKid, bytes }: ContentKey): Keyring {
  return { activeKid, get: (kid) => (kid === activeKid ? bytes : null) };
}
