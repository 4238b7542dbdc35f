/** Runs requests and WebSocket turns, one at a time, and fetches the report of each when it has ended. */

import { askReport, type Report } from "./report.ts";
import { NOT_RUN, ownProblem, type Run, runRequest } from "./run.ts";
import { isSendable } from "./sendable-key.ts";
import { buildRequest, type Typed } from "./sent-request.ts";
import { openTurnSocket, type TurnSocket } from "./socket-run.ts";

export interface RunnerState {
  /** Null until a request of the shown operation is sent. */
  readonly run: Run | null;
  readonly report: Report | null;
  /** The WebSocket is open for another turn. */
  readonly isOpen: boolean;
  /** The ids of the latest objects that this page has created, by the names of path parameters. */
  readonly created: { readonly request_id?: string; readonly response_id?: string };
}

export const IDLE: RunnerState = { run: null, report: null, isOpen: false, created: {} };

interface RunnerOptions {
  /** Returns the key that is typed now. The runner does not store it, except with the connection it opened. */
  key(): string;
  onChange(state: RunnerState): void;
}

export class RequestRunner {
  readonly #key: () => string;
  readonly #onChange: (state: RunnerState) => void;
  #state = IDLE;
  #connection: { socket: TurnSocket; key: string } | null = null;
  #aborting: AbortController | null = null;
  /** Of the run that is shown. Late events of earlier runs are dropped. */
  #runNumber = 0;

  constructor({ key, onChange }: RunnerOptions) {
    this.#key = key;
    this.#onChange = onChange;
  }

  start(typed: Typed): void {
    if (this.#state.run?.state === "running") return;
    this.#update({ report: null });
    if (typed.operation.needsKey && this.#key() === "") this.#fail("missing_api_key");
    else if (!isSendable(this.#key())) this.#fail("unusable_api_key");
    else if (typed.operation.isSocket) this.#sendTurn(typed.body);
    else this.#sendRequest(typed);
  }

  stop(): void {
    this.#aborting?.abort();
    if (this.#state.isOpen) this.disconnect();
  }

  disconnect(): void {
    this.#connection?.socket.close();
    this.#connection = null;
    this.#update({ isOpen: false });
  }

  /** Stops what is running and clears the result: another operation is shown. */
  reset(): void {
    this.#runNumber++;
    this.#aborting?.abort();
    this.disconnect();
    this.#update({ run: null, report: null });
  }

  #sendRequest(typed: Typed): void {
    this.#aborting = new AbortController();
    this.#update({ run: NOT_RUN });
    void runRequest(buildRequest(typed), this.#key(), this.#aborting.signal, this.#listen());
  }

  /** The connection stays open for the next turn, as long as the key stays the same. */
  #sendTurn(message: string): void {
    if (this.#connection?.key !== this.#key()) this.#connect();
    this.#connection?.socket.turn(message, this.#listen());
  }

  #connect(): void {
    this.disconnect();
    const key = this.#key();
    const onClose = () => {
      if (this.#connection !== connection) return;
      this.#connection = null;
      this.#update({ isOpen: false });
    };
    const connection = { key, socket: openTurnSocket(key, onClose) };
    this.#connection = connection;
    this.#update({ isOpen: true });
  }

  #fail(code: "missing_api_key" | "unusable_api_key"): void {
    this.#listen()({ ...NOT_RUN, state: "failed", problem: ownProblem(code) });
  }

  /** Returns the listener of one new run. */
  #listen(): (run: Run) => void {
    const number = ++this.#runNumber;
    return (run) => {
      if (number !== this.#runNumber) return;
      this.#update({ run });
      if (run.state === "done" && run.responseId !== null) this.#remember({ response_id: run.responseId });
      if (run.state !== "running" && run.requestId !== null) void this.#fetchReport(run.requestId, number);
    };
  }

  async #fetchReport(requestId: string, number: number): Promise<void> {
    if (this.#key() === "") return;
    const report = await askReport(requestId, this.#key());
    if (report !== null) this.#remember({ request_id: requestId });
    if (number === this.#runNumber) this.#update({ report });
  }

  #remember(ids: RunnerState["created"]): void {
    this.#update({ created: { ...this.#state.created, ...ids } });
  }

  #update(changes: Partial<RunnerState>): void {
    this.#state = { ...this.#state, ...changes };
    this.#onChange(this.#state);
  }
}
