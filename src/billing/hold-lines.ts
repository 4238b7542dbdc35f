/**
 * The lines of a journal that tell holds. Those of one key differ in little, so what they have in common, their kind,
 * is told once a segment.
 */

import { z } from "zod";
import { INTERFACES } from "../records.ts";
import { type Hold, UNSENT } from "../store/holds.ts";
import { type HoldAsked, heldTokens } from "./booking.ts";
import type { LinePen } from "./line-pen.ts";
import { type NameReader, type NameTeller, named } from "./name-lines.ts";

/** A hold that was given, of all that was wanted. */
export interface Given {
  readonly asked: HoldAsked;
  readonly atMs: number;
}

interface Kind {
  number: number;
  /** The first of them. */
  first: HoldAsked;
}

/** One for each segment, because segments are read independently. */
export class HoldTeller {
  private readonly names: NameTeller;
  private readonly incarnation: string;
  /** By key, of which each has few. */
  private readonly kinds = new Map<string, Kind[]>();
  private count = 0;

  constructor(names: NameTeller, incarnation: string) {
    this.names = names;
    this.incarnation = incarnation;
  }

  /** Tells of this hold, and of its kind if that was not done yet. */
  tell({ asked, atMs }: Given, pen: LinePen): void {
    const kind = this.numberOf(asked, pen);
    pen.open("b");
    pen.text(asked.requestId);
    pen.number(kind);
    pen.number(atMs);
    pen.nano(asked.wantedNano);
    pen.number(heldTokens(asked));
    pen.close();
  }

  private numberOf(asked: HoldAsked, pen: LinePen): number {
    let ofKey = this.kinds.get(asked.keyId);
    if (ofKey === undefined) {
      ofKey = [];
      this.kinds.set(asked.keyId, ofKey);
    }
    for (const kind of ofKey) if (isAlike(kind.first, asked)) return kind.number;
    const number = this.count++;
    ofKey.push({ number, first: asked });
    this.tellKind(number, asked, pen);
    return number;
  }

  private tellKind(number: number, asked: HoldAsked, pen: LinePen): void {
    const named = [
      this.incarnation,
      asked.userId,
      asked.tariff.id,
      asked.keyId,
      asked.groupId,
      asked.endpoint,
      asked.publicModel,
    ].map((name) => this.names.numberOf(name, pen));
    pen.json(["g", number, ...named, asked.interface, asked.stream]);
  }
}

/** In all that a kind tells, but for the key, which is the same. */
function isAlike(one: HoldAsked, other: HoldAsked): boolean {
  return (
    one.publicModel === other.publicModel &&
    one.endpoint === other.endpoint &&
    one.stream === other.stream &&
    one.tariff.id === other.tariff.id &&
    one.interface === other.interface &&
    one.groupId === other.groupId &&
    one.userId === other.userId
  );
}

/** Text where a number would not be exact. */
export const nanoShape = z.union([z.string().regex(/^\d{1,19}$/), z.int().min(0)]).transform(BigInt);

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
