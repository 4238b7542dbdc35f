/** A vocabulary imported `with { type: "file" }`: its path, also inside the single executable. */
declare module "*.tiktoken" {
  const path: string;
  export default path;
}
