/** The receiver of an upstream's message: which names in the message it knows, so that they are not redacted. */

import type { AccountRoute } from "../../policy/snapshot.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { Audience } from "../../protocols/shared/upstream-error.ts";

export function messageAudience(request: ModelRequest, route: AccountRoute | null): Audience {
  return new RequestAudience(request, route);
}

/** A class, because one object per response is cheaper than closures. */
class RequestAudience implements Audience {
  readonly publicModel: string;
  readonly upstreamModel: string;
  readonly account: AccountRoute["account"] | null;
  readonly #request: ModelRequest;

  constructor(request: ModelRequest, route: AccountRoute | null) {
    this.publicModel = request.publicModel;
    this.upstreamModel = route?.upstreamModel ?? request.publicModel;
    this.account = route?.account ?? null;
    this.#request = request;
  }

  get wantsBase64(): boolean {
    return this.#request.wantsBase64;
  }

  mentions(word: string): boolean {
    return this.#request.body.mentions(word);
  }
}
