/** Hooks that fetch, cache and refresh what the API returns. */

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
  ApiProblem,
  api,
  type Input,
  type ListName,
  type ListRow,
  type ResponseBody,
  type RouteName,
} from "./api.ts";

export function openQueryClient(onSignedOut: () => void): QueryClient {
  const client = new QueryClient({
    defaultOptions: {
      // The browser's offline state does not decide: the gateway may be on this machine. A change is sent or fails now,
      // never later, when the dialog that sent it is closed.
      mutations: { networkMode: "always" },
      queries: {
        networkMode: "always",
        staleTime: 5_000,
        // A rejection is final; an unreachable gateway may be back in a moment.
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
  /** False: not fetched yet. */
  enabled?: boolean;
  /** Fetched again at this interval while the page is visible. */
  refreshMs?: number;
  /** While the input changes, the previous data stays. */
  keepPrevious?: boolean;
}

/** The input can be omitted if none of its fields is required. */
type QueryArgs<Name extends RouteName> =
  Record<string, never> extends Input<Name>
    ? [input?: Input<Name>, options?: QueryOptions]
    : [input: Input<Name>, options?: QueryOptions];

function inputOrNone<Name extends RouteName>(input: Input<Name> | undefined): Input<Name> {
  return input ?? ({} as Input<Name>);
}

export interface ApiQuery<Data> {
  data: Data | undefined;
  error: Error | null;
  isFetching: boolean;
  refetch(): Promise<unknown>;
}

export function useApi<Name extends RouteName>(
  name: Name,
  ...[input, options]: QueryArgs<Name>
): ApiQuery<ResponseBody<Name>> {
  const given = inputOrNone<Name>(input);
  const result = useQuery<ResponseBody<Name>>({
    queryKey: [name, given],
    queryFn: ({ signal }) => api(name, given, signal),
    ...shared(options),
    ...(options?.keepPrevious ? { placeholderData: keepPreviousData } : {}),
  });
  const { data, isFetching, refetch } = result;
  return { data, error: useLastError(result), isFetching, refetch };
}

/** A query without data is fetched again and again. Its last error stays visible until data arrives. */
function useLastError({ error, isPending, errorUpdateCount }: QueryState): Error | null {
  const last = useRef(error);
  if (error !== null || !isPending || errorUpdateCount === 0) last.current = error;
  return last.current;
}

interface QueryState {
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

/** A list that is read page by page, on demand. */
export interface Listing<Row> {
  rows: readonly Row[];
  isLoading: boolean;
  error: Error | null;
  /** Null at the end of the list. */
  more: { load(): void; isLoading: boolean } | null;
  /** Fetches again after a failure. */
  retry(): void;
}

export function useList<Name extends ListName>(
  name: Name,
  ...[input, options]: QueryArgs<Name>
): Listing<ListRow<Name>> {
  const given = inputOrNone<Name>(input);
  const result: UseInfiniteQueryResult<InfiniteData<Page<ListRow<Name>>>, Error> = useInfiniteQuery({
    // Not under the key of `useApi`, which keeps a single page.
    queryKey: [name, given, "pages"],
    queryFn: ({ pageParam, signal }) =>
      api(name, fromCursor(given, pageParam), signal) as Promise<Page<ListRow<Name>>>,
    initialPageParam: null as string | null,
    getNextPageParam: (page: Page<ListRow<Name>>) => page.next,
    ...shared(options),
    // A reader of later pages keeps what is on the screen, and no page is fetched again.
    refetchInterval: ({ state }) =>
      (state.data?.pages.length ?? 0) > 1 ? false : (options?.refreshMs ?? false),
    ...(options?.keepPrevious ? { placeholderData: keepPreviousData } : {}),
  });
  const error = useLastError(result);
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

/** The listing of a response that contains the whole list. */
export function wholeList<Row>({ data, error, refetch }: ApiQuery<{ data: readonly Row[] }>): Listing<Row> {
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

/** Operations. An area ends with a dot: `keys.` means all of `keys`. */
type Invalidated = readonly (RouteName | `${string}.`)[];

interface ChangeOptions<Name extends RouteName> {
  /** Cached responses of these operations are fetched again. */
  invalidates?: Invalidated;
  onDone?(response: ResponseBody<Name>, input: Input<Name>): void;
}

export function useChange<Name extends RouteName>(
  name: Name,
  { invalidates = [], onDone }: ChangeOptions<Name> = {},
): UseMutationResult<ResponseBody<Name>, Error, Input<Name>> {
  const invalidate = useInvalidate();
  return useMutation({
    mutationFn: (input: Input<Name>) => api(name, input),
    onSuccess: async (response, input) => {
      onDone?.(response, input);
      await invalidate(invalidates);
    },
  });
}

/** Fetches cached responses again, after a change that is no operation of the console. */
export function useInvalidate(): (operations: Invalidated) => Promise<void> {
  const client = useQueryClient();
  return (operations) =>
    client.invalidateQueries({
      predicate: ({ queryKey: [asked] }) =>
        operations.some((one) => one === asked || (one.endsWith(".") && String(asked).startsWith(one))),
    });
}
