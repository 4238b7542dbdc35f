/** The conversation that the playground shows: sends turns to all columns, stops and repeats them, and keeps it. */

import { ApiProblem, api } from "../../api.ts";
import type { Inspection } from "../requests/inspection.ts";
import {
  type Column,
  type Conversation,
  listMessages,
  NEW_REPLY,
  type Reply,
  replaceReply,
  type Settings,
  type Turn,
} from "./conversation.ts";
import { DIALECTS, type PlaygroundInterface } from "./dialects.ts";
import { streamReply } from "./stream-reply.ts";
import type { TemporarySecrets } from "./temporary-secrets.ts";
import { parseTools } from "./tools.ts";

/** A model of the key's group. */
export interface PlaygroundModel {
  readonly id: string;
  readonly interface: PlaygroundInterface;
  readonly outputTokensMax: number | null;
}

interface SessionOptions {
  readonly secrets: TemporarySecrets;
  /** Called at most once a frame, also while four models stream. */
  onChange(conversation: Conversation): void;
  /** Called after each turn and each bill, also when the session is closed. */
  onSettled(conversation: Conversation): void;
}

/** The usage row of a request may be written a moment after its last byte, and by another node. */
const BILL_TRIES = 12;
const BILL_PAUSE_MS = 400;

export class PlaygroundSession {
  readonly #options: SessionOptions;
  #conversation: Conversation;
  #frame: number | null = null;
  /** Null if no reply streams. */
  #aborting: AbortController | null = null;
  #isClosed = false;

  constructor(conversation: Conversation, options: SessionOptions) {
    this.#conversation = conversation;
    this.#options = options;
  }

  get conversation(): Conversation {
    return this.#conversation;
  }

  edit(changes: Partial<Pick<Conversation, "settings" | "columns">>): void {
    this.#update({ ...this.#conversation, ...changes });
  }

  async send(turn: Turn, keyId: string, models: ReadonlyMap<string, PlaygroundModel>): Promise<void> {
    const { turns } = this.#conversation;
    this.#update({ ...this.#conversation, atMs: Date.now(), turns: [...turns, turn] });
    await this.#requestReplies(keyId, models);
  }

  /** Requests the replies to the last turn again. */
  async repeat(keyId: string, models: ReadonlyMap<string, PlaygroundModel>): Promise<void> {
    await this.#requestReplies(keyId, models);
  }

  stop(): void {
    this.#aborting?.abort();
  }

  /** The page shows another conversation, or is left. */
  close(): void {
    this.#isClosed = true;
    this.stop();
  }

  async #requestReplies(keyId: string, models: ReadonlyMap<string, PlaygroundModel>): Promise<void> {
    if (this.#aborting !== null) return;
    this.#aborting = new AbortController();
    const { signal } = this.#aborting;
    const { columns, settings, turns } = this.#conversation;
    const turnIndex = turns.length - 1;
    for (const { id } of columns) this.#setReply(id, turnIndex, NEW_REPLY);
    await Promise.all(
      columns.map(async (column) => {
        const input = { model: models.get(column.model), settings, turnIndex, keyId, signal };
        const reply = await this.#requestReply(column, input);
        this.#setReply(column.id, turnIndex, reply);
        if (reply.requestId !== null) void this.#addBill(column.id, turnIndex, reply.requestId);
      }),
    );
    this.#aborting = null;
    this.#notify();
    this.#options.onSettled(this.#conversation);
  }

  async #requestReply(column: Column, request: ReplyInput): Promise<Reply> {
    const { model, turnIndex, keyId, signal } = request;
    const body = buildBody(this.#conversation.turns, column, request);
    if (model === undefined || body === null) return { ...NEW_REPLY, state: "failed", problem: "" };
    const dialect = DIALECTS[model.interface];
    try {
      const { secrets } = this.#options;
      const secret = await secrets.get(keyId);
      const onSecretRejected = () => secrets.forget(keyId);
      return await streamReply({ dialect, body, secret, signal, onSecretRejected }, (step) =>
        this.#setReply(column.id, turnIndex, step),
      );
    } catch (error) {
      const problem = error instanceof ApiProblem ? error.message : "";
      return { ...NEW_REPLY, state: "failed", problem };
    }
  }

  /** The next turn does not wait for it. */
  async #addBill(columnId: string, turnIndex: number, requestId: string): Promise<void> {
    const bill = await readBill(requestId);
    const reply = this.#conversation.columns.find(({ id }) => id === columnId)?.replies[turnIndex];
    // The reply may have been repeated meanwhile.
    if (bill === null || reply?.requestId !== requestId) return;
    this.#setReply(columnId, turnIndex, { ...reply, bill });
    this.#options.onSettled(this.#conversation);
  }

  #setReply(columnId: string, turnIndex: number, reply: Reply): void {
    const columns = this.#conversation.columns.map((column) =>
      column.id === columnId ? replaceReply(column, turnIndex, reply) : column,
    );
    this.#conversation = { ...this.#conversation, columns };
    this.#frame ??= requestAnimationFrame(() => this.#notify());
  }

  #update(conversation: Conversation): void {
    this.#conversation = conversation;
    this.#notify();
  }

  #notify(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    if (!this.#isClosed) this.#options.onChange(this.#conversation);
  }
}

interface ReplyInput {
  readonly model: PlaygroundModel | undefined;
  readonly settings: Settings;
  readonly turnIndex: number;
  readonly keyId: string;
  readonly signal: AbortSignal;
}

/** Null if the model is not offered any more, or the tools are not JSON. */
export function buildBody(
  turns: readonly Turn[],
  column: Column,
  { model, settings, turnIndex }: Pick<ReplyInput, "model" | "settings" | "turnIndex">,
): Record<string, unknown> | null {
  const tools = parseTools(settings.tools);
  if (model === undefined || tools === null) return null;
  return DIALECTS[model.interface].buildBody({
    model: model.id,
    system: settings.system.trim(),
    messages: listMessages(turns, column.replies, turnIndex),
    tools,
    temperature: settings.temperature,
    effort: settings.effort === "" ? null : settings.effort,
    outputTokensMax: model.outputTokensMax,
  });
}

async function readBill(requestId: string): Promise<Inspection | null> {
  for (let tries = 0; tries < BILL_TRIES; tries++) {
    try {
      return await api("usage.request", { params: { id: requestId } });
    } catch {
      await new Promise((resolve) => setTimeout(resolve, BILL_PAUSE_MS));
    }
  }
  return null;
}
