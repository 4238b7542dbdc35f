/** Public model records. */

import type { ModelRecord } from "../../records/model.ts";
import { enumerate, StoreConflict } from "../engine/conflict.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { integer, integerOrNull, interfaces, json, text } from "../engine/row.ts";
import { priceForm } from "./price-column.ts";

export async function listModels(db: Db): Promise<ModelRecord[]> {
  const rows = await db.sql`
    SELECT id, interfaces, price, context_tokens, output_tokens_max, created_at_ms FROM model
    ORDER BY created_at_ms, id`;
  return rows.map(toModel);
}

export async function putModel(db: Db, model: ModelRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await tx.sql`
      INSERT INTO model (id, interfaces, price, context_tokens, output_tokens_max, created_at_ms)
      VALUES (${model.id}, ${JSON.stringify(model.interfaces)},
        ${model.price === null ? null : JSON.stringify(model.price)}, ${model.contextTokens},
        ${model.outputTokensMax}, ${model.createdAtMs})
      ON CONFLICT (id) DO UPDATE SET interfaces = excluded.interfaces, price = excluded.price,
        context_tokens = excluded.context_tokens, output_tokens_max = excluded.output_tokens_max,
        created_at_ms = excluded.created_at_ms`;
  });
}

/** Returns false if the model did not exist. */
export async function deleteModel(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const groups = await tx.sql`
      SELECT grp.name AS name FROM publication JOIN grp ON grp.id = publication.group_id
      WHERE publication.model_id = ${id} ORDER BY grp.name`;
    if (groups.length > 0) {
      const names = groups.map((row) => text(row, "name"));
      throw new StoreConflict(
        "referenced",
        `The model "${id}" is still published by ${enumerate("group", names)}.`,
      );
    }
    const deleted = await tx.sql`DELETE FROM model WHERE id = ${id} RETURNING id`;
    return deleted.length > 0;
  });
}

function toModel(row: Row): ModelRecord {
  return {
    id: text(row, "id"),
    interfaces: interfaces(row, "interfaces"),
    price: row.price === null ? null : json(row, "price", priceForm),
    contextTokens: integerOrNull(row, "context_tokens"),
    outputTokensMax: integerOrNull(row, "output_tokens_max"),
    createdAtMs: integer(row, "created_at_ms"),
  };
}
