/** Writes bytes to one client. What the kernel does not accept at once is buffered, in order. */
export interface SocketWriter {
  readonly address: string;
  /** Buffered bytes, because the client reads slowly. */
  readonly bufferedBytes: number;
  /** The caller may reuse the bytes afterwards: what is not accepted at once is copied. */
  write(bytes: Uint8Array, from?: number, to?: number): void;
  /** Closes in order after all bytes are sent. */
  end(): void;
  /** Closes at once; the client sees a reset. */
  terminate(): void;
}

/** The protocol of an upgraded connection, which receives its bytes. */
export interface UpgradedProtocol {
  /** The receiver owns the buffer. */
  onData(bytes: Buffer): void;
  /** `bufferedBytes` has become 0. */
  onDrain(): void;
  /** The last call, whichever side closed the connection. */
  onClose(): void;
}
