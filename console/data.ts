/** Hooks around the API: what is shown is fetched, kept and refreshed here. */

import {
  type InfiniteData,
  keepPreviousData,
  QueryClient,
  type UseInfiniteQueryResult,
  type UseMutationResult,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useRef } from "react";
import {
  type Answer,
  ApiProblem,
  api,
  type Input,
  type ListName,
  type ListRow,
  type RouteName,
} from "./api.ts";

export function openQueryClient(onSignedOut: () => void): QueryClient {
  const client = new QueryClient({
    defaultOptions: {
      // Whether the gateway is reached, asking it tells: it may be on this machine while the network is gone. And what
      // was ordered is sent now or fails now, never later, when whoever ordered it has long closed the dialog.
      mutations: { networkMode: "always" },
      queries: {
        networkMode: "always",
        staleTime: 5_000,
        // A refusal stays one; what could not be reached may be back in a moment.
        retry: (failures, error) => isPassing(error) && failures < 2,
        refetchOnWindowFocus: true,
      },
    },
  });
  client.getQueryCache().subscribe(({ type, query }) => {
    if (type === "updated" && isSignedOut(query.state.error)) onSignedOut();
  });
  client.getMutationCache().subscribe(({ mutation }) => {
    if (isSignedOut(mutation?.state.error)) onSignedOut();
  });
  return client;
}

function isPassing(error: unknown): boolean {
  return error instanceof ApiProblem && (error.status === 0 || error.status >= 502);
}

function isSignedOut(error: unknown): boolean {
  return error instanceof ApiProblem && error.code === "sign_in_required";
}

interface QueryOptions {
  /** False: not asked yet. */
  enabled?: boolean;
  /** Asked again and again while the page is looked at. */
  refreshMs?: number;
  /** While the input changes, what was there stays. */
  keepPrevious?: boolean;
}

/** The input can be left out where nothing has to be given. */
type QueryArgs<Name extends RouteName> =
  Record<string, never> extends Input<Name>
    ? [input?: Input<Name>, options?: QueryOptions]
    : [input: Input<Name>, options?: QueryOptions];

function inputOf<Name extends RouteName>(input: Input<Name> | undefined): Input<Name> {
  return input ?? ({} as Input<Name>);
}

export interface Asked<Data> {
  data: Data | undefined;
  error: Error | null;
  isFetching: boolean;
  refetch(): Promise<unknown>;
}

export function useApi<Name extends RouteName>(
  name: Name,
  ...[input, options]: QueryArgs<Name>
): Asked<Answer<Name>> {
  const given = inputOf<Name>(input);
  const result = useQuery<Answer<Name>>({
    queryKey: [name, given],
    queryFn: ({ signal }) => api(name, given, signal),
    ...shared(options),
    ...(options?.keepPrevious ? { placeholderData: keepPreviousData } : {}),
  });
  const { data, isFetching, refetch } = result;
  return { data, error: useStanding(result), isFetching, refetch };
}

/** What never came is asked for again and again: until it is there, why it did not come stays told. */
function useStanding({ error, isPending, errorUpdateCount }: Standing): Error | null {
  const last = useRef(error);
  if (error !== null || !isPending || errorUpdateCount === 0) last.current = error;
  return last.current;
}

interface Standing {
  error: Error | null;
  isPending: boolean;
  errorUpdateCount: number;
}

function shared({ enabled, refreshMs }: QueryOptions = {}) {
  return {
    ...(enabled === undefined ? {} : { enabled }),
    ...(refreshMs === undefined ? {} : { refetchInterval: refreshMs }),
  };
}

/** A list read page by page, as far as somebody looks. */
export interface Listing<Row> {
  rows: readonly Row[];
  isLoading: boolean;
  error: Error | null;
  /** Null at the end. */
  more: { load(): void; isLoading: boolean } | null;
  /** After it has failed. */
  retry(): void;
}

export function useList<Name extends ListName>(
  name: Name,
  ...[input, options]: QueryArgs<Name>
): Listing<ListRow<Name>> {
  const given = inputOf<Name>(input);
  const result: UseInfiniteQueryResult<InfiniteData<Page<ListRow<Name>>>, Error> = useInfiniteQuery({
    // Not under the key of `useApi`, which keeps a single page.
    queryKey: [name, given, "pages"],
    queryFn: ({ pageParam, signal }) =>
      api(name, fromCursor(given, pageParam), signal) as Promise<Page<ListRow<Name>>>,
    initialPageParam: null as string | null,
    getNextPageParam: (page: Page<ListRow<Name>>) => page.next,
    ...shared(options),
    // Whoever has gone further back reads: what is under their eyes stays, and nothing is fetched page by page again.
    refetchInterval: ({ state }) =>
      (state.data?.pages.length ?? 0) > 1 ? false : (options?.refreshMs ?? false),
    ...(options?.keepPrevious ? { placeholderData: keepPreviousData } : {}),
  });
  const error = useStanding(result);
  return {
    rows: result.data?.pages.flatMap((page) => page.data) ?? [],
    isLoading: result.isPending && error === null,
    error,
    retry: () => void result.refetch(),
    more: result.hasNextPage
      ? { load: () => void result.fetchNextPage(), isLoading: result.isFetchingNextPage }
      : null,
  };
}

/** Of an answer that is the whole list. */
export function wholeList<Row>({ data, error, refetch }: Asked<{ data: readonly Row[] }>): Listing<Row> {
  const isLoading = data === undefined && error === null;
  return { rows: data?.data ?? [], isLoading, error, more: null, retry: () => void refetch() };
}

function fromCursor<Name extends ListName>(input: Input<Name>, after: string | null): Input<Name> {
  const { query }: { query?: unknown } = input;
  return after === null ? input : { ...input, query: { ...(query as object | undefined), after } };
}

interface Page<Row> {
  data: readonly Row[];
  next: string | null;
}

interface ChangeOptions<Name extends RouteName> {
  /** What is shown of these is asked for again. An area ends with a dot: `keys.` means all of them. */
  invalidates?: readonly (RouteName | `${string}.`)[];
  onDone?(answer: Answer<Name>, input: Input<Name>): void;
}

export function useChange<Name extends RouteName>(
  name: Name,
  { invalidates = [], onDone }: ChangeOptions<Name> = {},
): UseMutationResult<Answer<Name>, Error, Input<Name>> {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (input: Input<Name>) => api(name, input),
    onSuccess: async (answer, input) => {
      onDone?.(answer, input);
      await client.invalidateQueries({
        predicate: ({ queryKey: [asked] }) =>
          invalidates.some((one) => one === asked || (one.endsWith(".") && String(asked).startsWith(one))),
      });
    },
  });
}
