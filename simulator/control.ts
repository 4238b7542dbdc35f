/** The control API of the simulator, for tests. */

import { isRecord, parseJson } from "./json-fields.ts";
import { parseFault } from "./model/model-name.ts";
import type { Simulation } from "./simulation.ts";

/** Lets tests inject faults at run time and read the ledger. */
export async function respondToControl(
  request: Request,
  path: string,
  simulation: Simulation,
): Promise<Response> {
  const { ledger } = simulation;
  const route = `${request.method} ${path}`;
  if (route === "GET /__ledger") return Response.json(ledger.snapshot());
  if (route === "POST /__ledger/reset") {
    ledger.reset();
    return Response.json({ ok: true });
  }
  if (route === "POST /__control") return control(await request.text(), simulation);
  const bodyRoute = /^GET \/__ledger\/([^/]+)\/body$/.exec(route);
  const body = bodyRoute === null ? null : ledger.findBody(bodyRoute[1] ?? "");
  if (body !== null) return new Response(Buffer.from(body));
  // The target of `fault/redirect`: a gateway that follows the redirect gets this response, and the test detects it.
  if (path === "/__redirected") return Response.json({ redirected: true });
  return Response.json({ error: { message: `Nothing at ${route}.` } }, { status: 404 });
}

function control(text: string, simulation: Simulation): Response {
  const command = parseJson(text);
  if (!isRecord(command) || (command.fault !== null && typeof command.fault !== "string")) {
    return Response.json(
      { error: { message: 'Say {"fault": "429" | null, "forNext"?: n}.' } },
      { status: 400 },
    );
  }
  const left = typeof command.forNext === "number" ? command.forNext : Number.POSITIVE_INFINITY;
  simulation.forced = command.fault === null ? null : { fault: parseFault(command.fault), left };
  return Response.json({ ok: true });
}
