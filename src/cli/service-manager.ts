/** Reports to systemd (`Type=notify`): ready, stopping, and that the event loop turns (`WatchdogSec`). */

import { dlopen, FFIType, ptr } from "bun:ffi";

interface ServiceManagerOptions {
  environment: Readonly<Record<string, string | undefined>>;
  /** Sends one datagram. Tests replace it. */
  send?(address: string, message: string): void;
  /** Called once if systemd cannot be reached. */
  onFailure(reason: string): void;
}

export class ServiceManager {
  readonly #address: string | null;
  readonly #watchdogMs: number | null;
  readonly #send: (address: string, message: string) => void;
  readonly #onFailure: (reason: string) => void;
  #watchdog: ReturnType<typeof setInterval> | null = null;
  #hasFailed = false;

  constructor({ environment, send = sendDatagram, onFailure }: ServiceManagerOptions) {
    this.#address = environment.NOTIFY_SOCKET || null;
    this.#watchdogMs = parseWatchdogMs(environment);
    this.#send = send;
    this.#onFailure = onFailure;
  }

  /** Processes are being replaced. `notifyReady` ends it. */
  notifyReloading(): void {
    this.#notify(`RELOADING=1\nMONOTONIC_USEC=${monotonicUs()}\nSTATUS=Replacing processes`);
  }

  /** From now on systemd restarts the process if the event loop stands still for `WatchdogSec`. */
  notifyReady(status: string): void {
    this.#notify(`READY=1\nSTATUS=${status}`);
    if (this.#watchdogMs === null || this.#address === null || this.#watchdog !== null) return;
    // Twice in each interval, as sd_watchdog_enabled(3) recommends.
    this.#watchdog = setInterval(() => this.#notify("WATCHDOG=1"), this.#watchdogMs / 2);
    this.#watchdog.unref();
  }

  /** The watchdog stays active: requests in flight may take two minutes, and a process that hangs then is a fault. */
  notifyStopping(): void {
    this.#notify("STOPPING=1\nSTATUS=Waiting for requests in flight");
  }

  close(): void {
    if (this.#watchdog !== null) clearInterval(this.#watchdog);
    this.#watchdog = null;
  }

  #notify(message: string): void {
    if (this.#address === null) return;
    try {
      this.#send(this.#address, message);
    } catch (error) {
      if (this.#hasFailed) return;
      this.#hasFailed = true;
      this.#onFailure(error instanceof Error ? error.message : "unknown");
    }
  }
}

/** By the clock that systemd compares it with. */
const monotonicUs = () => Number(process.hrtime.bigint() / 1_000n);

/** Null if systemd does not watch this process. */
function parseWatchdogMs(environment: ServiceManagerOptions["environment"]): number | null {
  const pid = environment.WATCHDOG_PID;
  if (pid !== undefined && pid !== "" && Number(pid) !== process.pid) return null;
  const microseconds = Number(environment.WATCHDOG_USEC);
  return Number.isSafeInteger(microseconds) && microseconds > 0 ? microseconds / 1_000 : null;
}

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;
/** Size of `sun_path` on Linux. */
const PATH_BYTES_MAX = 108;

/** By the C library, because the runtime has no datagram sockets of the family AF_UNIX. */
function sendDatagram(address: string, message: string): void {
  const libc = openLibc();
  const target = encodeSocketAddress(address);
  const bytes = Buffer.from(message);
  const socket = libc.symbols.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) throw new Error("no socket could be opened for systemd");
  try {
    const sent = libc.symbols.sendto(
      socket,
      ptr(bytes),
      bytes.length,
      MSG_NOSIGNAL,
      ptr(target),
      target.length,
    );
    if (Number(sent) !== bytes.length) throw new Error(`systemd cannot be reached at ${address}`);
  } finally {
    libc.symbols.close(socket);
  }
}

/** `struct sockaddr_un`. A name that begins with @ is in the abstract namespace, whose names begin with a zero byte. */
export function encodeSocketAddress(address: string): Buffer {
  const path = Buffer.from(address);
  if (path.length >= PATH_BYTES_MAX) throw new Error("the address in NOTIFY_SOCKET is too long");
  const isAbstract = address.startsWith("@");
  if (isAbstract) path[0] = 0;
  const family = Buffer.alloc(2);
  // In the byte order of the processor, which is little-endian on every supported one.
  family.writeUInt16LE(AF_UNIX);
  return Buffer.concat(isAbstract ? [family, path] : [family, path, Buffer.alloc(1)]);
}

function openLibc() {
  const names = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];
  for (const name of names) {
    try {
      return dlopen(name, {
        socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
        sendto: {
          args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32, FFIType.ptr, FFIType.u32],
          returns: FFIType.i64,
        },
        close: { args: [FFIType.i32], returns: FFIType.i32 },
      });
    } catch {
      // The next name: the library is called differently with musl.
    }
  }
  throw new Error("the C library cannot be loaded");
}
