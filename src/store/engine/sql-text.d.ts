/** Lets TypeScript import .sql files as text. */

declare module "*.sql" {
  const text: string;
  export default text;
}
