/**
 * Journal lines for holds. Holds of one key share most fields, so the shared fields are written once per segment and
 * referenced by number.
 */

import { z } from "zod";
import type { Tariff } from "../../money/tariff.ts";
import { INTERFACES, type Interface } from "../../records.ts";
import { type Hold, UNSENT } from "../../store/money/holds.ts";
import { type HoldRequest, heldTokens } from "../engine/booking.ts";
import type { JsonLineWriter } from "./json-line-writer.ts";
import { type NameEncoder, type NameReader, named } from "./name-lines.ts";

/** A hold of the full wanted amount. */
export interface HoldFields {
  readonly asked: HoldRequest;
  readonly atMs: number;
  readonly lease: SharedFieldsCache;
}

/** Caches the shared fields of its latest hold, because the next hold likely has the same. */
interface SharedFieldsCache {
  told: SharedHoldFields | null;
}

/** The fields that several holds share, and the number that refers to them in one segment. */
export class SharedHoldFields {
  /** Identifies the segment. A cached instance keeps nothing else of its segment alive. */
  readonly segment: symbol;
  readonly number: number;
  private readonly tariff: Tariff;
  private readonly publicModel: string;
  private readonly endpoint: string;
  private readonly stream: boolean;
  private readonly interface: Interface;
  private readonly keyId: string;
  private readonly groupId: string;
  private readonly userId: string;

  constructor(segment: symbol, number: number, request: HoldRequest) {
    this.segment = segment;
    this.number = number;
    this.tariff = request.tariff;
    this.publicModel = request.publicModel;
    this.endpoint = request.endpoint;
    this.stream = request.stream;
    this.interface = request.interface;
    this.keyId = request.keyId;
    this.groupId = request.groupId;
    this.userId = request.userId;
  }

  isOf(request: HoldRequest): boolean {
    return (
      (this.tariff === request.tariff || this.tariff.id === request.tariff.id) &&
      this.publicModel === request.publicModel &&
      this.endpoint === request.endpoint &&
      this.stream === request.stream &&
      this.interface === request.interface &&
      this.keyId === request.keyId &&
      this.groupId === request.groupId &&
      this.userId === request.userId
    );
  }
}

/** One encoder per segment, because segments are read independently. */
export class HoldEncoder {
  private readonly names: NameEncoder;
  private readonly incarnation: string;
  private readonly segment = Symbol();
  /** By key. Each key has few. */
  private readonly kinds = new Map<string, SharedHoldFields[]>();
  private count = 0;

  constructor(names: NameEncoder, incarnation: string) {
    this.names = names;
    this.incarnation = incarnation;
  }

  /** Writes the hold, preceded by its shared fields if the segment does not have them yet. */
  tell({ asked, atMs, lease }: HoldFields, writer: JsonLineWriter): void {
    let { told } = lease;
    if (told === null || told.segment !== this.segment || !told.isOf(asked)) {
      told = this.kindOf(asked, writer);
      lease.told = told;
    }
    writer.open("b");
    writer.text(asked.requestId);
    writer.number(told.number);
    writer.number(atMs);
    writer.nano(asked.wantedNano);
    writer.number(heldTokens(asked));
    writer.close();
  }

  private kindOf(request: HoldRequest, writer: JsonLineWriter): SharedHoldFields {
    let keyKinds = this.kinds.get(request.keyId);
    if (keyKinds === undefined) {
      keyKinds = [];
      this.kinds.set(request.keyId, keyKinds);
    }
    for (const sharedFields of keyKinds) if (sharedFields.isOf(request)) return sharedFields;
    const sharedFields = new SharedHoldFields(this.segment, this.count++, request);
    keyKinds.push(sharedFields);
    this.tellKind(sharedFields.number, request, writer);
    return sharedFields;
  }

  private tellKind(number: number, request: HoldRequest, writer: JsonLineWriter): void {
    const { names } = this;
    const incarnation = names.numberOf(this.incarnation, writer);
    const user = names.numberOf(request.userId, writer);
    const tariff = names.numberOf(request.tariff.id, writer);
    const key = names.numberOf(request.keyId, writer);
    const group = names.numberOf(request.groupId, writer);
    const endpoint = names.numberOf(request.endpoint, writer);
    const model = names.numberOf(request.publicModel, writer);
    writer.open("g");
    writer.number(number);
    writer.number(incarnation);
    writer.number(user);
    writer.number(tariff);
    writer.number(key);
    writer.number(group);
    writer.number(endpoint);
    writer.number(model);
    writer.text(request.interface);
    writer.flag(request.stream);
    writer.close();
  }
}

/** A string if a JSON number would not be exact. */
const nanoShape = z.union([z.string().regex(/^\d{1,19}$/), z.int().min(0)]).transform(BigInt);

const kindShape = z.tuple([
  z.literal("g"),
  z.int(),
  named,
  named,
  named,
  named,
  named,
  named,
  named,
  z.enum(INTERFACES),
  z.boolean(),
]);
const holdShape = z.tuple([z.literal("b"), z.string(), z.int(), z.number(), nanoShape, z.number()]);

type HoldKind = Omit<Hold, "requestId" | "atMs" | "amountNano" | "inputTokens">;

/** Its methods throw on lines that they do not understand. */
export class HoldReader {
  private readonly names: NameReader;
  private readonly kinds = new Map<number, HoldKind>();

  constructor(names: NameReader) {
    this.names = names;
  }

  forget(): void {
    this.kinds.clear();
  }

  takeKind(json: unknown): void {
    const [, number, incarnation, user, tariff, key, group, endpoint, model, face, stream] =
      kindShape.parse(json);
    this.kinds.set(number, {
      ...UNSENT,
      incarnation: this.names.nameOf(incarnation),
      userId: this.names.nameOf(user),
      tariffId: this.names.nameOf(tariff),
      keyId: this.names.nameOf(key),
      groupId: this.names.nameOf(group),
      endpoint: this.names.nameOf(endpoint),
      publicModel: this.names.nameOf(model),
      interface: face,
      stream,
      subscriptionId: null,
    });
  }

  takeHold(json: unknown): Hold {
    const [, requestId, number, atMs, amountNano, inputTokens] = holdShape.parse(json);
    const sharedFields = this.kinds.get(number);
    if (sharedFields === undefined) throw new Error("Nothing was told of its kind.");
    return { ...sharedFields, requestId, atMs, amountNano, inputTokens };
  }
}
