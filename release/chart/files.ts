/** The generated files of `deploy/`, each with its content. */

import { buildDefaultValues, buildValuesSchema } from "./values.ts";

export const CHART = "deploy/helm/model-gateway";

export function buildGeneratedFiles(): Readonly<Record<string, string>> {
  return {
    [`${CHART}/values.yaml`]: buildDefaultValues(),
    [`${CHART}/values.schema.json`]: buildValuesSchema(),
  };
}
