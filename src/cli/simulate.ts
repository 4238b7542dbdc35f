/** `model-gateway simulate`: runs the simulator on its own. */

import { startSimulator } from "../../simulator/simulator.ts";
import { type CommandDefinition, fail, misuse } from "./command.ts";
import { PROGRAM } from "./program-name.ts";

export const simulate: CommandDefinition = {
  changes: "nothing",
  options: {
    port: { value: "PORT", about: "the port to listen on (9001; 0 chooses a free port)" },
    host: { value: "HOST", about: "the address to listen on (127.0.0.1)" },
    seed: { value: "NUMBER", about: "the same seed returns the same responses" },
    credential: { value: "TEXT", about: "reject requests without this API key" },
    tokens: {
      value: "RULE",
      about: "token count: bytes (a quarter of the bytes) or o200k (a real tokenizer)",
    },
  },
  async run(input) {
    const { print, paint } = input.terminal;
    const parseWhole = (option: string, max: number): number | undefined => {
      const text = input.text(option);
      if (text === undefined) return undefined;
      const number = /^\d{1,10}$/.test(text) ? Number(text) : -1;
      if (number < 0 || number > max)
        misuse(`--${option} must be a whole number from 0 to ${max}.`, `See: ${PROGRAM} simulate --help`);
      return number;
    };
    const port = parseWhole("port", 65_535) ?? 9001;
    const seed = parseWhole("seed", 2 ** 32 - 1);
    const hostname = input.text("host") ?? "127.0.0.1";
    const credential = input.text("credential");
    const tokens = input.text("tokens") ?? "bytes";
    if (tokens !== "bytes" && tokens !== "o200k")
      misuse("--tokens must be bytes or o200k.", `See: ${PROGRAM} simulate --help`);
    let simulator: ReturnType<typeof startSimulator>;
    try {
      simulator = startSimulator({
        hostname,
        port,
        tokens,
        ...(seed === undefined ? {} : { seed }),
        ...(credential === undefined ? {} : { credential }),
      });
    } catch {
      return fail(
        `Port ${port} on ${hostname} is already in use.`,
        `Choose another port: ${PROGRAM} simulate --port 0`,
      );
    }
    const auth = credential === undefined ? "" : ` -H "Authorization: Bearer …"`;
    print(`The simulator listens on ${paint.bold(simulator.url)}\n`);
    print(paint.dim("Try it:"));
    print(`  curl ${simulator.url}/chat/completions${auth} -H "Content-Type: application/json" \\`);
    print(`    -d '{"model": "sim-fast", "messages": [{"role": "user", "content": "Hello"}]}'\n`);
    print(paint.dim("As an account in gateway.yaml:"));
    print(
      `  - name: simulated\n    kind: openai\n    base_url: ${simulator.url}\n    private_network: true\n`,
    );
    print(
      paint.dim(
        "Models: sim-fast, sim-reason, sim-tools, sim-embed, sim-image, and faults such as fault/429. Press Ctrl+C to stop.",
      ),
    );
    await new Promise<void>((resolve) => {
      process.once("SIGINT", resolve);
      process.once("SIGTERM", resolve);
    });
    await simulator.stop();
  },
};
