/** What every page component receives. In a file of its own, because the table of pages imports the pages. */
export interface PageProps {
  /** The named segments of the address: `:id` is `params.id`. */
  params: Readonly<Record<string, string | undefined>>;
}
