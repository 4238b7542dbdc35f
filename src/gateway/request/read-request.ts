/** Reads the body of a model request: checked, bounded, and parsed no further than the gateway needs. */

import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import { copyInTurns } from "../../base/next-turn.ts";
import { type Part, partBytes, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { IncomingHttpRequest } from "../../net/wire/http-message.ts";
import { readBoundary } from "../../net/wire/multipart.ts";
import { openChanged, openInspected, readModelRequest } from "../../protocols/read-request.ts";
import { applyRules, type PolicyResult } from "../../protocols/request-policy/apply-rules.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { JsonRequestLimits } from "../../protocols/shared/json-request.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { disposeBody, readBody } from "../bodies/body.ts";
import type { BodyOwner, BodyReservation } from "../bodies/body-budget.ts";
import type { BodyBudgets } from "../bodies/body-budgets.ts";
import { bodyError } from "../bodies/body-error.ts";
import { BodyInspector, type InspectionThreadLimits } from "../bodies/body-inspector.ts";
import type { BodyLimits } from "../bodies/body-reader.ts";
import type { BodyResult } from "../bodies/large-body.ts";
import { type MultipartRequestLimits, readMultipartRequest } from "../bodies/multipart-request.ts";

interface RequestLimits extends MultipartRequestLimits {
  jsonBodyBytesMax: number;
  jsonDepthMax: number;
  /** Longer JSON bodies are inspected in a thread. */
  inspectInThreadAboveBytes: number;
  inspectionThreads: InspectionThreadLimits;
  monotonicMs(): number;
}

/** A complete JSON body. The reader owns the bytes and may transfer a long body to a thread. */
interface CompleteBody {
  readonly bytes: Uint8Array;
  readonly owner: BodyOwner;
  /** Null if the body is not counted. */
  readonly reservation: BodyReservation | null;
}

interface RestrictedRequest extends Omit<PolicyResult, "changed"> {
  /** The same request if no rule changed it. */
  readonly request: ModelRequest;
}

interface Restriction {
  readonly endpoint: Endpoint;
  readonly owner: BodyOwner;
  /** A fallback step restricts the request, and another step may need it as it was received. */
  readonly keepsReceived: boolean;
}

const NO_CHANGES: RestrictedRequest["changes"] = [];

/** Receives a body as it came. The bytes belong to the reader: copy what is needed later. */
type BodyObserver = (body: Part) => void;

interface ObservedReading {
  readonly observe: BodyObserver;
  /** Its threads are shared. */
  readonly inspector: BodyInspector;
}

/** Reads the bodies of model requests, of HTTP requests and of turns. */
export class RequestReader {
  readonly #limits: RequestLimits;
  readonly #budgets: BodyBudgets;
  readonly #bodyLimits: BodyLimits;
  readonly #jsonLimits: JsonRequestLimits;
  readonly #inspector: BodyInspector;
  readonly #observe: BodyObserver | null;

  constructor(limits: RequestLimits, budgets: BodyBudgets, observed: ObservedReading | null = null) {
    this.#limits = limits;
    this.#budgets = budgets;
    this.#bodyLimits = {
      ...limits.bodyReading,
      bytesMax: limits.jsonBodyBytesMax,
      idleTimeoutMs: limits.bodyIdleTimeoutMs,
      deadlines: limits.deadlines,
      smallBudget: budgets.small,
    };
    this.#jsonLimits = { depthMax: limits.jsonDepthMax, modelNameCharsMax: limits.modelNameCharsMax };
    this.#inspector = observed?.inspector ?? this.#openInspector();
    this.#observe = observed?.observe ?? null;
  }

  /** A reader that shows each JSON body before it is checked, so that a rejected one is seen too. */
  observedBy(observe: BodyObserver): RequestReader {
    return new RequestReader(this.#limits, this.#budgets, { observe, inspector: this.#inspector });
  }

  /** Reads the body of an HTTP request, as JSON or as a form. */
  read(request: IncomingHttpRequest, endpoint: Endpoint, owner: BodyOwner): MaybePromise<ModelRequest> {
    const contentType = request.headers.get("content-type") ?? "";
    if (isJson(contentType)) {
      const body = readBody(request, this.#bodyLimits, this.#budgets.large, owner);
      return isPending(body)
        ? body.then((complete) => this.#parse(complete, endpoint, owner))
        : this.#parse(body, endpoint, owner);
    }
    const { takesForms } = endpoint;
    const boundary = takesForms ? readBoundary(contentType) : null;
    if (boundary === null) {
      throw new ApiError(
        "unsupported_media_type",
        `Send the body as ${takesForms ? "application/json or multipart/form-data" : "application/json"} and set Content-Type.`,
      );
    }
    const limits = this.#limits;
    return readMultipartRequest(request, { boundary, contentType, limits, budgets: this.#budgets, owner });
  }

  /** Applies the rules of a request policy. Throws the error of a request that a rule rejects. */
  restrict(
    request: ModelRequest,
    rules: BodyRules,
    restriction: Restriction,
  ): MaybePromise<RestrictedRequest> {
    const { endpoint } = restriction;
    const scanned = request.scannedBody();
    if (scanned === null) return { request, changes: NO_CHANGES, outputCap: null };
    const { start, end } = scanned.part;
    if (this.#isLong(end - start)) return this.#restrictInThread(request, rules, restriction);
    const { changes, changed, outputCap } = applyRules(scanned, rules, endpoint);
    if (changed === null) return { request, changes, outputCap };
    const restricted = openChanged(changed, endpoint, this.#jsonLimits, buildDisposal(request));
    return { request: restricted, changes, outputCap };
  }

  readJson(body: CompleteBody, endpoint: Endpoint): MaybePromise<ModelRequest> {
    const { bytes, reservation } = body;
    if (this.#isLong(bytes.length)) return this.#readInThread(body, endpoint);
    try {
      return readModelRequest(wholeBytesPart(bytes), endpoint, this.#jsonLimits, buildRelease(reservation));
    } catch (error) {
      reservation?.release();
      throw error;
    }
  }

  close(): void {
    this.#inspector.close();
  }

  #openInspector(): BodyInspector {
    const { inspectionThreads, monotonicMs } = this.#limits;
    return new BodyInspector({ jsonLimits: this.#jsonLimits, threadLimits: inspectionThreads, monotonicMs });
  }

  #parse(body: BodyResult, endpoint: Endpoint, owner: BodyOwner): MaybePromise<ModelRequest> {
    if (!("ok" in body)) {
      if (this.#observe !== null) this.#observe(body);
      if (!this.#isLong(body.end - body.start)) return readModelRequest(body, endpoint, this.#jsonLimits);
      return this.#readInThread({ bytes: partBytes(body), owner, reservation: null }, endpoint);
    }
    if (!body.ok) throw bodyError(body);
    const { bytes, reservation } = body;
    if (this.#observe !== null) this.#observe(wholeBytesPart(bytes));
    return this.readJson({ bytes, owner, reservation }, endpoint);
  }

  #isLong(bytes: number): boolean {
    return bytes > this.#limits.inspectInThreadAboveBytes;
  }

  async #restrictInThread(
    request: ModelRequest,
    rules: BodyRules,
    { endpoint, owner, keepsReceived }: Restriction,
  ): Promise<RestrictedRequest> {
    const { inputText } = request;
    if (inputText.kind !== "json") throw new Error("a form has no rules");
    const { bytes, inspection, policy } = await this.#inspector.inspect({
      // Unless it is kept, nothing reads the received body any more: the thread returns the one that takes its place.
      bytes: await (keepsReceived ? copyBytes : ownBytes)(partBytes(inputText.body)),
      endpoint,
      owner: owner.userId ?? owner.id,
      rules,
    });
    if (policy === null) throw new Error("a request policy was not applied");
    const inspected = { body: wholeBytesPart(bytes), inspection, onDispose: buildDisposal(request) };
    return { ...policy, request: openInspected(inspected, endpoint, this.#jsonLimits) };
  }

  async #readInThread(
    { bytes: source, owner, reservation }: CompleteBody,
    endpoint: Endpoint,
  ): Promise<ModelRequest> {
    try {
      const { bytes, inspection } = await this.#inspector.inspect({
        bytes: await ownBytes(source),
        endpoint,
        owner: owner.userId ?? owner.id,
      });
      return openInspected(
        { body: wholeBytesPart(bytes), inspection, onDispose: buildRelease(reservation) },
        endpoint,
        this.#jsonLimits,
      );
    } catch (error) {
      reservation?.release();
      throw error;
    }
  }
}

/** An array that covers its whole buffer. A small body may share it with a head that is still read. */
async function ownBytes(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length) return new Uint8Array(buffer);
  return copyBytes(bytes);
}

async function copyBytes(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  await copyInTurns(copy, 0, bytes);
  return copy;
}

/** The changed request takes the place of the received one. */
function buildDisposal(received: ModelRequest): () => void {
  return () => disposeBody(received);
}

function buildRelease(reservation: BodyReservation | null): (() => void) | null {
  return reservation === null ? null : () => reservation.release();
}

/** Compares the exact type without its parameters: a prefix would accept `application/jsonx`. */
function isJson(contentType: string): boolean {
  if (contentType === "application/json") return true;
  const [type = ""] = contentType.split(";", 1);
  return type.trim().toLowerCase() === "application/json";
}
