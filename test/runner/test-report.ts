/** Reads the output of `bun test`, line by line: which files have run, which tests failed and why. */

export interface Failure {
  readonly file: string;
  readonly name: string;
  /** The output of the runtime about it. */
  words: string;
}

export class TestReport {
  readonly files = new Set<string>();
  readonly failures: Failure[] = [];
  passed = 0;
  /** As counted by the runtime, with the files that could not be run. Null until the run has ended. */
  failed: number | null = null;
  readonly #onFailure: (failure: Failure) => void;
  #rest = "";
  #file = "";
  #words: string[] = [];
  /** A missed deadline is printed after the result, so a failure is complete when the next line arrives. */
  #pending: Failure | null = null;
  #isSummary = false;

  constructor(onFailure: (failure: Failure) => void = () => {}) {
    this.#onFailure = onFailure;
  }

  /** Any part of the output. */
  push(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#readLine(line);
  }

  end(): void {
    this.push("\n");
    this.#complete();
  }

  /** False if a process ended before its tests did, or a file could not be loaded. */
  get isWhole(): boolean {
    return this.failed === this.failures.length;
  }

  #readLine(line: string): void {
    const total = /^ *(\d+) (pass|fail)$/.exec(line);
    if (total?.[2] === "pass") this.passed = Number(total[1]);
    if (total?.[2] === "fail") this.failed = Number(total[1]);
    // From here on the runtime repeats the names.
    if (/^\d+ tests? failed:$/.test(line)) this.#isSummary = true;
    if (this.#isSummary || total !== null) {
      this.#complete();
      return;
    }
    if (this.#pending !== null && line.startsWith("  ^ ")) {
      this.#pending.words += `\n${line}`;
      return;
    }
    this.#complete();
    const heading = /^(\S+\.test\.tsx?):$/.exec(line);
    if (heading !== null) {
      this.#file = heading[1] ?? "";
      this.files.add(this.#file);
      this.#words = [];
      return;
    }
    const verdict = /^\((pass|fail|skip|todo)\) (.*?)(?: \[[\d.]+m?s\])?$/.exec(line);
    if (verdict === null) {
      this.#words.push(line);
      return;
    }
    if (verdict[1] === "fail") {
      const words = this.#words.join("\n").trim();
      this.#pending = { file: this.#file, name: verdict[2] ?? "", words };
      this.failures.push(this.#pending);
    }
    this.#words = [];
  }

  #complete(): void {
    const failure = this.#pending;
    this.#pending = null;
    if (failure !== null) this.#onFailure(failure);
  }
}
