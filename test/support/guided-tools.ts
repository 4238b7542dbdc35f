/** A gateway, and a home folder in which the guides of the page "Connect a tool" are followed exactly as printed. */

import { TOOL_GUIDES, type ToolId } from "../../console/snippets/tool-guides.ts";
import { DIALECTS } from "../../src/records/interfaces.ts";
import { ClientsPage } from "./clients-page.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "./running-gateway.ts";

const MODEL = "fast-chat";

export class GuidedTools {
  readonly gateway: RunningGateway;
  readonly home: ClientsPage;

  private constructor(gateway: RunningGateway) {
    this.gateway = gateway;
    this.home = new ClientsPage(gateway.url);
  }

  static async open(): Promise<GuidedTools> {
    const url = ["$", "{SIMULATOR_URL}"].join("");
    const account = { name: "sim", kind: "openai", base_url: url, private_network: true };
    const gateway = await startTestGateway({
      file: JSON.stringify({
        models: [{ id: MODEL, interfaces: DIALECTS }],
        accounts: [{ ...account, models: { [MODEL]: "sim-fast" } }],
        groups: [{ name: "default", interfaces: DIALECTS, models: [MODEL], accounts: ["sim"] }],
        keys: [{ name: "test", group: "default", secret: TEST_KEY }],
      }),
    });
    return new GuidedTools(gateway);
  }

  /**
   * Writes the files of the guide and runs its commands, then `program`. Packages are not installed: the caller has
   * them. Returns the output.
   */
  follow(id: ToolId, program = ""): Promise<string> {
    const guide = TOOL_GUIDES.find((one) => one.id === id);
    if (guide === undefined) throw new Error(`There is no guide for ${id}.`);
    const model = { id: MODEL, interfaces: DIALECTS, context_tokens: null, max_output_tokens: null };
    const commands: string[] = [];
    for (const { place, code } of guide.write({ origin: this.gateway.url, model })) {
      if (place !== null) this.home.write(place.replace("~/", ""), code);
      else if (!/^(?:pip|npm) install /.test(code)) commands.push(code);
    }
    // Claude Code rejects root outside of a sandbox.
    return this.home.run(["sh", "-c", [...commands, program].join("\n")], { IS_SANDBOX: "1" });
  }

  async stop(): Promise<void> {
    this.home.remove();
    await this.gateway.stop();
  }
}
