/** Every value of a field named `model`, at any depth: the model names that a response reveals. */
export function modelsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(modelsIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    name === "model" && typeof inner === "string" ? [inner] : modelsIn(inner),
  );
}
