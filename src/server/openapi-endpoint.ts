/** The OpenAPI document of the gateway, built at the first request for it. */

import type { SharedResponse } from "../net/wire/http-message.ts";
import { jsonDocument, type StaticDocument } from "../net/wire/static-document.ts";
import { VERSION } from "../version.ts";
import { listRoutes } from "./routes.ts";
import type { ServerCall } from "./server-call.ts";

export class OpenApiEndpoint {
  readonly #publicUrl: string;
  #document: Promise<StaticDocument> | null = null;

  constructor(publicUrl: string) {
    this.#publicUrl = publicUrl;
  }

  async respond({ request, requestId }: ServerCall): Promise<SharedResponse> {
    this.#document ??= buildDocument(this.#publicUrl);
    const response = (await this.#document).respond(request.headers);
    response.headers.set("x-request-id", requestId);
    return response;
  }
}

/** The modules of the document are loaded here, because model requests need none of them. */
async function buildDocument(publicUrl: string): Promise<StaticDocument> {
  const { openApiDocument } = await import("../public-api/openapi.ts");
  return jsonDocument(openApiDocument(listRoutes(), { version: VERSION, publicUrl }));
}
