/** Which added parameters an account rejects: the next name of a list is used then, or none. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";

/** How many of the names an account has rejected. After the last one no parameter is sent. */
interface RejectedCount {
  count: number;
  untilMs: number;
}

export type RejectionMemory = WeakMap<AccountRoute, RejectedCount>;

const REMEMBERED_MS = 60 * 60_000;
const UNKNOWN_FIELD =
  /unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed/i;

interface AddedParameter {
  readonly request: ModelRequest;
  /** Its names in the client's dialect, the preferred one first. */
  readonly names: readonly string[];
  /** Its names in any dialect: an account of another dialect knows it by another name. */
  readonly foreignNames: readonly string[];
  readonly memory: RejectionMemory;
  monotonicMs(): number;
}

export class RejectedNames {
  readonly #parameter: AddedParameter;
  /** What this request has learnt itself. */
  readonly #counts = new Map<AccountRoute, number>();

  constructor(parameter: AddedParameter) {
    this.#parameter = parameter;
  }

  /** The name to use for an account; undefined if it accepts none. */
  pickName(route: AccountRoute): string | undefined {
    return this.#parameter.names[this.#countRejected(route)];
  }

  /** The account rejected a parameter that the client did not send, so a retry makes sense. */
  recordRejection(route: AccountRoute, { class: kind, error }: UpstreamFailure): boolean {
    const { request, foreignNames, memory, monotonicMs } = this.#parameter;
    const rejectedCount = this.#countRejected(route);
    const name = this.pickName(route);
    if (kind !== "rejected" || error === null || name === undefined) return false;
    const names = route.translation === null ? [name] : foreignNames;
    // If the client used the name itself, the error may refer to that.
    if (names.some((one) => request.body.mentions(one))) return false;
    const words: readonly string[] = error.message.match(/\w+/g) ?? [];
    if (!names.some((one) => error.param === one || words.includes(one))) return false;
    this.#counts.set(route, rejectedCount + 1);
    // Only unsupported parameters are remembered: a value that is too large now may be accepted next time.
    if (UNKNOWN_FIELD.test(`${error.code} ${error.message}`)) {
      memory.set(route, { count: rejectedCount + 1, untilMs: monotonicMs() + REMEMBERED_MS });
    }
    return true;
  }

  #countRejected(route: AccountRoute): number {
    const { memory, monotonicMs } = this.#parameter;
    const remembered = memory.get(route);
    const rememberedCount =
      remembered !== undefined && monotonicMs() < remembered.untilMs ? remembered.count : 0;
    return Math.max(rememberedCount, this.#counts.get(route) ?? 0);
  }
}
