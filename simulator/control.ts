import { isRecord, parseJson } from "./json-fields.ts";
import { parseFault } from "./model-name.ts";
import type { Simulation } from "./simulation.ts";

/** The tests' own door: break every model at run time, read the ledger. */
export async function answerControl(
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
  const bodyOf = /^GET \/__ledger\/([^/]+)\/body$/.exec(route);
  const body = bodyOf === null ? null : ledger.bodyOf(bodyOf[1] ?? "");
  if (body !== null) return new Response(Buffer.from(body));
  // Where `fault/redirect` points: a gateway that follows it gets an answer, and is found out.
  if (path === "/__redirected") return Response.json({ redirected: true });
  return Response.json({ error: { message: `Nothing at ${route}.` } }, { status: 404 });
}

function control(text: string, simulation: Simulation): Response {
  const order = parseJson(text);
  if (!isRecord(order) || (order.fault !== null && typeof order.fault !== "string")) {
    return Response.json(
      { error: { message: 'Say {"fault": "429" | null, "forNext"?: n}.' } },
      { status: 400 },
    );
  }
  const left = typeof order.forNext === "number" ? order.forNext : Number.POSITIVE_INFINITY;
  simulation.forced = order.fault === null ? null : { fault: parseFault(order.fault), left };
  return Response.json({ ok: true });
}
