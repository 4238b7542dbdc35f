/** The resource of a process, and the frame of the messages that carry its spans to a collector. */

import { VERSION } from "../version.ts";
import { ATTRIBUTE } from "./attribute-names.ts";
import { type MessageFrame, toStringValue } from "./span.ts";

interface ResourceOptions {
  readonly serviceName: string;
  /** Identifies the process among those of the service. */
  readonly instanceId: string;
  /** Attributes that the operator adds. They take precedence. */
  readonly attributes: Readonly<Record<string, string>>;
}

const SCOPE_NAME = "model-gateway";

export function buildFrame({ serviceName, instanceId, attributes }: ResourceOptions): MessageFrame {
  const all = {
    [ATTRIBUTE.serviceName]: serviceName,
    [ATTRIBUTE.serviceVersion]: VERSION,
    [ATTRIBUTE.serviceInstanceId]: instanceId,
    [ATTRIBUTE.sdkName]: SCOPE_NAME,
    [ATTRIBUTE.sdkLanguage]: "nodejs",
    [ATTRIBUTE.sdkVersion]: VERSION,
    ...attributes,
  };
  const list = Object.entries(all).map(([key, value]) => ({ key, value: toStringValue(value) }));
  const scope = JSON.stringify({ name: SCOPE_NAME, version: VERSION });
  return {
    start: `{"resourceSpans":[{"resource":{"attributes":${JSON.stringify(list)}},"scopeSpans":[{"scope":${scope},"spans":`,
    end: "}]}]}",
  };
}
