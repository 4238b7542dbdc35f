/** Lets TypeScript import .lua files as text. */

declare module "*.lua" {
  const text: string;
  export default text;
}
