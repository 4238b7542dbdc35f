/** Every value of a field called `model`, at any depth: what an answer says about who made it. */
export function modelsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(modelsIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    name === "model" && typeof inner === "string" ? [inner] : modelsIn(inner),
  );
}
