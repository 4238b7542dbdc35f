/** `model-gateway simulate`: runs the simulator on its own. */

import { startSimulator } from "../../simulator/simulator.ts";
import { type Command, fail, misuse } from "./command.ts";

export const simulate: Command = {
  words: "simulate",
  summary: "Run the built-in simulator, an upstream that answers without a model",
  options: {
    port: { value: "PORT", about: "the port to listen on (9001; 0 takes a free one)" },
    host: { value: "HOST", about: "the address to listen on (127.0.0.1)" },
    seed: { value: "NUMBER", about: "the same seed gives the same answers" },
    credential: { value: "TEXT", about: "refuse callers that do not show it" },
    tokens: { value: "RULE", about: "how it counts: bytes (a quarter of them) or o200k (a real tokenizer)" },
  },
  async run(input) {
    const { print, paint } = input.terminal;
    const parseWhole = (option: string, max: number): number | undefined => {
      const text = input.text(option);
      if (text === undefined) return undefined;
      const number = /^\d{1,10}$/.test(text) ? Number(text) : -1;
      if (number < 0 || number > max)
        misuse(
          `--${option} must be a whole number from 0 to ${max}.`,
          "See: npx model-gateway simulate --help",
        );
      return number;
    };
    const port = parseWhole("port", 65_535) ?? 9001;
    const seed = parseWhole("seed", 2 ** 32 - 1);
    const hostname = input.text("host") ?? "127.0.0.1";
    const credential = input.text("credential");
    const tokens = input.text("tokens") ?? "bytes";
    if (tokens !== "bytes" && tokens !== "o200k")
      misuse("--tokens must be bytes or o200k.", "See: npx model-gateway simulate --help");
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
        `Port ${port} on ${hostname} is not free.`,
        "Choose another one: npx model-gateway simulate --port 0",
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
        "Models: sim-fast, sim-reason, sim-tools, sim-embed, sim-image, and faults such as fault/429. Ctrl+C stops it.",
      ),
    );
    await new Promise<void>((resolve) => {
      process.once("SIGINT", resolve);
      process.once("SIGTERM", resolve);
    });
    await simulator.stop();
    return 0;
  },
};
