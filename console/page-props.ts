/** The properties of every page component. A separate file, because the table of pages imports the pages. */
export interface PageProps {
  /** The named segments of the address: `:id` is `params.id`. */
  params: Readonly<Record<string, string | undefined>>;
}
