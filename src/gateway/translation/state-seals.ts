/**
 * Seals the opaque state of vendors for clients. The envelope is bound to the owner of the API key, so that no other owner
 * can use it, and names the account that issued the state.
 */

import { isObject, parseJson } from "../../json/parse.ts";
import type { OpaqueField, OpaqueState } from "../../protocols/hub/hub-request.ts";
import { ENVELOPE_PREFIX, type StateSealer, type VendorState } from "../../protocols/hub/sealed-state.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { Keyring } from "../../secrets/keyring.ts";
import { seal, unseal } from "../../secrets/seal.ts";

/** A longer state is not sealed: clients send it back with every turn. */
const STATE_CHARS_MAX = 1024 * 1024;
const FIELDS: readonly string[] = [
  "encrypted_content",
  "signature",
  "redacted_thinking",
  "thought_signature",
] satisfies OpaqueField[];

/** Where a request is sent, and in which dialect. */
export interface SealTarget {
  readonly route: { readonly account: { readonly id: string }; readonly upstreamModel: string };
  readonly dialect: Dialect;
  /** The owner of the API key. */
  readonly owner: string;
}

/** Where a state is valid. */
interface SealIssuer {
  readonly accountId: string;
  readonly upstreamModel: string;
  readonly dialect: unknown;
}

export class StateSeals {
  readonly #keyring: Keyring;

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  /** The account that issued the state; null if the envelope is not of this owner. */
  readIssuer(envelope: string, owner: string): SealIssuer | null {
    const sealed = openEnvelope(this.#keyring, envelope, bindTo(owner));
    const { a: accountId, m: upstreamModel, d: dialect } = sealed ?? {};
    if (typeof accountId !== "string" || typeof upstreamModel !== "string") return null;
    return { accountId, upstreamModel, dialect };
  }

  open({ route, dialect, owner }: SealTarget): StateSealer {
    const { account, upstreamModel } = route;
    return new RouteSealer(this.#keyring, {
      binding: bindTo(owner),
      accountId: account.id,
      upstreamModel,
      dialect,
    });
  }
}

interface SealedFor {
  readonly binding: string;
  readonly accountId: string;
  readonly upstreamModel: string;
  readonly dialect: Dialect;
}

class RouteSealer implements StateSealer {
  readonly #keyring: Keyring;
  readonly #target: SealedFor;

  constructor(keyring: Keyring, target: SealedFor) {
    this.#keyring = keyring;
    this.#target = target;
  }

  seal({ field, value }: VendorState): OpaqueState {
    const { binding, accountId, upstreamModel, dialect } = this.#target;
    if (value.length > STATE_CHARS_MAX) return { kind: "vendor", dialect, field, value };
    const text = JSON.stringify({ a: accountId, m: upstreamModel, d: dialect, f: field, v: value });
    const [, kid, sealed] = seal(this.#keyring, binding, text).split(":");
    return { kind: "sealed", envelope: `${ENVELOPE_PREFIX}${kid}.${sealed}` };
  }

  open(state: OpaqueState): VendorState | null {
    const { accountId, upstreamModel, dialect } = this.#target;
    // The client received this state elsewhere. Only an upstream of the same dialect may understand it.
    if (state.kind === "vendor")
      return state.dialect === dialect ? { field: state.field, value: state.value } : null;
    const sealed = openEnvelope(this.#keyring, state.envelope, this.#target.binding);
    if (sealed === null || sealed.a !== accountId || sealed.m !== upstreamModel || sealed.d !== dialect)
      return null;
    const { f: field, v: value } = sealed;
    return isOpaqueField(field) && typeof value === "string" ? { field, value } : null;
  }
}

function bindTo(owner: string): string {
  return `state|${owner}`;
}

function openEnvelope(keyring: Keyring, envelope: string, binding: string): Record<string, unknown> | null {
  const [kid, sealed] = envelope.slice(ENVELOPE_PREFIX.length).split(".", 2);
  try {
    const json = parseJson(Buffer.from(unseal(keyring, binding, `v1:${kid}:${sealed}`)));
    return isObject(json) ? json : null;
  } catch {
    // Changed, of another owner, or sealed by a master key that was removed.
    return null;
  }
}

function isOpaqueField(field: unknown): field is OpaqueField {
  return typeof field === "string" && FIELDS.includes(field);
}
