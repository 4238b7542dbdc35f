/** Public model records. */

import { MODEL_FIELDS, type ModelRecord } from "../../records/model.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { rejectUnknownFallback } from "./earlier-nodes.ts";
import { deleteUnlessListed, PUBLICATIONS } from "./memberships.ts";
import { RecordTable } from "./record-table.ts";

const MODELS = new RecordTable("model", MODEL_FIELDS);

export function listModels(db: Db): Promise<ModelRecord[]> {
  return MODELS.list(db);
}

export async function putModel(db: Db, model: ModelRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await rejectUnknownFallback(tx, `the model "${model.id}"`, model);
    await MODELS.put(tx, model);
  });
}

/** Returns false if the model did not exist. */
export function deleteModel(db: Db, id: string): Promise<boolean> {
  return deleteUnlessListed(db, PUBLICATIONS, id);
}
