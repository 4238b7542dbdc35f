/** The contract of every hop of a body, from the upstream's socket to the client's: a sink and a sender under its control. */

/** Receives a body piece by piece. Exactly one of `end` and `fail` is called, as the last call. */
export interface BodySink<Piece, Failure, Last = void> {
  data(piece: Piece): void;
  end(last: Last): void;
  /** The body broke off. */
  fail(failure: Failure): void;
}

/** Controls the sender of a body. Calls that do not apply to its current state have no effect. */
export interface Backpressure {
  /** Stops sending. Pieces that are already in memory may still be sent. */
  pause(): void;
  resume(): void;
  /** Ends the transfer. The sink receives no further call. */
  abort(): void;
}
