/** Base64 embeddings, the default request of the SDKs, for upstreams that return only numbers. */

import { type ByteRange, eachElement } from "../../json/array.ts";
import { parseJson } from "../../json/parse.ts";
import { type JsonField, scanObject, wantedFields } from "../../json/scan.ts";
import { replaceValue, type Splice } from "../../json/splice.ts";

const ENTRY = wantedFields(["embedding"]);

/**
 * Builds splices that encode each list of numbers as little-endian 32-bit floats in Base64. If the first entry is not a
 * list of numbers, none is checked further.
 */
export function packVectors(bytes: Uint8Array, data: JsonField, depthMax: number): Splice[] {
  const readNumbers = (entry: ByteRange): JsonField | null => {
    const scan = scanObject(bytes, entry.start, entry.end, ENTRY, { depthMax });
    const vector = scan.ok ? scan.fields.embedding : undefined;
    return vector?.kind === "array" ? vector : null;
  };
  const splices: Splice[] = [];
  let isFirst = true;
  for (const entry of eachElement(bytes, data)) {
    const field = readNumbers(entry);
    if (isFirst && field === null) return splices;
    isFirst = false;
    const vector = field && parseJson(bytes, field.start, field.end);
    if (field !== null && isVector(vector))
      splices.push(replaceValue(field, Buffer.from(`"${encodeVector(vector)}"`)));
  }
  return splices;
}

function isVector(json: unknown): json is number[] {
  return Array.isArray(json) && json.every((value) => typeof value === "number");
}

/** Little-endian 32-bit floats in Base64. */
export function encodeVector(vector: readonly number[]): string {
  const floats = new DataView(new ArrayBuffer(vector.length * Float32Array.BYTES_PER_ELEMENT));
  vector.forEach((value, index) => {
    floats.setFloat32(index * Float32Array.BYTES_PER_ELEMENT, value, true);
  });
  return Buffer.from(floats.buffer).toString("base64");
}
