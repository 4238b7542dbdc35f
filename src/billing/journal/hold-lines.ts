/**
 * The lines of a journal that tell holds. Those of one key differ in little, so what they have in common, their kind,
 * is told once a segment.
 */

import { z } from "zod";
import type { Tariff } from "../../money/tariff.ts";
import { INTERFACES, type Interface } from "../../records.ts";
import { type Hold, UNSENT } from "../../store/money/holds.ts";
import { type HoldRequest, heldTokens } from "../engine/booking.ts";
import type { JsonLineWriter } from "./json-line-writer.ts";
import { type NameEncoder, type NameReader, named } from "./name-lines.ts";

/** A hold that was given, of all that was wanted. */
export interface HoldFields {
  readonly asked: HoldRequest;
  readonly atMs: number;
  readonly lease: Remembering;
}

/** Remembers the kind that its latest hold was told by: the next one is likely of it, too. */
interface Remembering {
  told: SharedHoldFields | null;
}

/** What holds of a kind have in common, and the number by which one segment tells it. */
export class SharedHoldFields {
  /** That segment's own: a kind that is remembered for long keeps nothing else of its segment. */
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

  constructor(segment: symbol, number: number, asked: HoldRequest) {
    this.segment = segment;
    this.number = number;
    this.tariff = asked.tariff;
    this.publicModel = asked.publicModel;
    this.endpoint = asked.endpoint;
    this.stream = asked.stream;
    this.interface = asked.interface;
    this.keyId = asked.keyId;
    this.groupId = asked.groupId;
    this.userId = asked.userId;
  }

  isOf(asked: HoldRequest): boolean {
    return (
      (this.tariff === asked.tariff || this.tariff.id === asked.tariff.id) &&
      this.publicModel === asked.publicModel &&
      this.endpoint === asked.endpoint &&
      this.stream === asked.stream &&
      this.interface === asked.interface &&
      this.keyId === asked.keyId &&
      this.groupId === asked.groupId &&
      this.userId === asked.userId
    );
  }
}

/** One for each segment, because segments are read independently. */
export class HoldEncoder {
  private readonly names: NameEncoder;
  private readonly incarnation: string;
  private readonly segment = Symbol();
  /** By key, of which each has few. */
  private readonly kinds = new Map<string, SharedHoldFields[]>();
  private count = 0;

  constructor(names: NameEncoder, incarnation: string) {
    this.names = names;
    this.incarnation = incarnation;
  }

  /** Tells of this hold, and of its kind if that was not done yet. */
  tell({ asked, atMs, lease }: HoldFields, pen: JsonLineWriter): void {
    let { told } = lease;
    if (told === null || told.segment !== this.segment || !told.isOf(asked)) {
      told = this.kindOf(asked, pen);
      lease.told = told;
    }
    pen.open("b");
    pen.text(asked.requestId);
    pen.number(told.number);
    pen.number(atMs);
    pen.nano(asked.wantedNano);
    pen.number(heldTokens(asked));
    pen.close();
  }

  private kindOf(asked: HoldRequest, pen: JsonLineWriter): SharedHoldFields {
    let ofKey = this.kinds.get(asked.keyId);
    if (ofKey === undefined) {
      ofKey = [];
      this.kinds.set(asked.keyId, ofKey);
    }
    for (const kind of ofKey) if (kind.isOf(asked)) return kind;
    const kind = new SharedHoldFields(this.segment, this.count++, asked);
    ofKey.push(kind);
    this.tellKind(kind.number, asked, pen);
    return kind;
  }

  private tellKind(number: number, asked: HoldRequest, pen: JsonLineWriter): void {
    const { names } = this;
    const incarnation = names.numberOf(this.incarnation, pen);
    const user = names.numberOf(asked.userId, pen);
    const tariff = names.numberOf(asked.tariff.id, pen);
    const key = names.numberOf(asked.keyId, pen);
    const group = names.numberOf(asked.groupId, pen);
    const endpoint = names.numberOf(asked.endpoint, pen);
    const model = names.numberOf(asked.publicModel, pen);
    pen.open("g");
    pen.number(number);
    pen.number(incarnation);
    pen.number(user);
    pen.number(tariff);
    pen.number(key);
    pen.number(group);
    pen.number(endpoint);
    pen.number(model);
    pen.text(asked.interface);
    pen.flag(asked.stream);
    pen.close();
  }
}

/** Text where a number would not be exact. */
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

/** What its methods do not understand they throw at. */
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
    const kind = this.kinds.get(number);
    if (kind === undefined) throw new Error("Nothing was told of its kind.");
    return { ...kind, requestId, atMs, amountNano, inputTokens };
  }
}
