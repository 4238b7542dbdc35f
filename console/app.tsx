/** Selects the page by the address and by who is signed in. */

import { QueryClientProvider } from "@tanstack/react-query";
import { Component, lazy, type ReactNode, Suspense, useEffect, useMemo, useRef } from "react";
import { Redirect, Route, Router, Switch, useLocation, useSearch } from "wouter";
import { openQueryClient } from "./data.ts";
import { readParams, useRawLocation, useRawSearch } from "./location.ts";
import { mayOpen, PAGES, type PageEntry } from "./pages.tsx";
import { SessionProvider, type SessionUser, useSession } from "./session.tsx";
import { Shell } from "./shell/shell.tsx";
import type { Catalogue } from "./text/catalogue.ts";
import { type Language, loadCatalogue } from "./text/language.ts";
import { TextProvider, useText } from "./text/text.tsx";
import { Button, LinkButton } from "./ui/button.tsx";
import { EmptyState, ProblemNotice } from "./ui/notice.tsx";
import { Bare, Page, PageHeader, Skeleton } from "./ui/page.tsx";
import { ToastProvider } from "./ui/toast.tsx";
import { mayGo } from "./ui/unsaved.ts";

const BASE = "/console";

export function App({ language, texts }: { language: Language; texts: Catalogue }) {
  return (
    <TextProvider language={language} texts={texts} load={loadCatalogue}>
      <Router
        base={BASE}
        hook={useRawLocation}
        searchHook={useRawSearch}
        aroundNav={(go, to, options) => {
          if (mayGo(to)) go(to, options);
        }}
      >
        <ToastProvider>
          <Data>
            <SessionProvider failed={(retry) => <Unreachable retry={retry} />}>
              <Pages />
            </SessionProvider>
          </Data>
        </ToastProvider>
      </Router>
    </TextProvider>
  );
}

function Data({ children }: { children: ReactNode }) {
  const client = useMemo(() => {
    const made = openQueryClient(() => void made.invalidateQueries({ queryKey: ["session.current"] }));
    return made;
  }, []);
  return <QueryClientProvider client={client}>{children}</QueryClientProvider>;
}

/** A new page is shown from its top; a page that the back button returns to, at its earlier position. */
function useTopOfPage(): void {
  const [path] = useLocation();
  const isBack = useRef(false);
  useEffect(() => {
    const onBack = () => {
      isBack.current = true;
    };
    addEventListener("popstate", onBack);
    return () => removeEventListener("popstate", onBack);
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect depends on the change of the path.
  useEffect(() => {
    if (!isBack.current) scrollTo(0, 0);
    isBack.current = false;
  }, [path]);
}

/** The chunk of a page could not be loaded. */
class NotLoaded extends Error {}

const ROUTES = PAGES.map((page) => ({
  path: page.path,
  page,
  Loaded: lazy(() =>
    page.load().catch((cause: unknown) => {
      throw new NotLoaded("The page was not loaded.", { cause });
    }),
  ),
}));

function Pages() {
  const { user } = useSession();
  useTopOfPage();
  return (
    <Switch>
      {routesFor(({ who }) => who === "anyone")}
      <Route>{user === null ? <SignInFirst /> : <UserPages user={user} />}</Route>
    </Switch>
  );
}

/** The shell stays mounted while the pages in it change. */
function UserPages({ user: { role } }: { user: SessionUser }) {
  return (
    <Shell>
      <Switch>
        {routesFor((page) => mayOpen(page, role))}
        {ROUTES.map(({ path }) => (
          <Route key={path} path={path} component={Forbidden} />
        ))}
        <Route path="/">
          <Redirect to={startPage(role)} replace />
        </Route>
        <Route component={NotFound} />
      </Switch>
    </Shell>
  );
}

function routesFor(isMeant: (page: PageEntry) => boolean): ReactNode {
  return ROUTES.filter(({ page }) => isMeant(page)).map(({ path, Loaded }) => (
    <Route key={path} path={path}>
      {(params) => (
        <ErrorBoundary>
          <Suspense fallback={<PageSkeleton />}>
            <Loaded params={readParams(params)} />
          </Suspense>
        </ErrorBoundary>
      )}
    </Route>
  ));
}

/** The home page of a role is its first page in the navigation. */
function startPage(role: SessionUser["role"]): string {
  const first = PAGES.find(({ who, nav }) => who === role && nav !== undefined);
  return first?.path ?? "/usage";
}

/** After signing in, the browser returns to the page that was requested. */
function SignInFirst() {
  const [path] = useLocation();
  const search = useSearch();
  const wanted = search === "" ? path : `${path}?${search}`;
  return (
    <Redirect to={wanted === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(wanted)}`} replace />
  );
}

function NotFound() {
  const { notFound: t } = useText("shell");
  return (
    <Page>
      <PageHeader title={t.title} />
      <EmptyState icon="search" title={t.text} actions={<LinkButton to="/">{t.home}</LinkButton>} />
    </Page>
  );
}

function Forbidden() {
  const { forbidden: t, notFound } = useText("shell");
  return (
    <Page>
      <PageHeader title={t.title} />
      <EmptyState icon="lock" title={t.text} actions={<LinkButton to="/">{notFound.home}</LinkButton>} />
    </Page>
  );
}

function Unreachable({ retry }: { retry: () => void }) {
  const { product } = useText("shell");
  return (
    <Bare title={product}>
      <ProblemNotice error={null} onRetry={retry} />
    </Bare>
  );
}

function PageSkeleton() {
  const t = useText("kit");
  return (
    <div className="page" role="status" aria-label={t.loading}>
      <Skeleton width={180} height={26} />
      <Skeleton height={220} />
    </div>
  );
}

interface Caught {
  failure: "none" | "crashed" | "not loaded";
}

/** An error in a page is shown in place of the page; the rest of the console keeps working. */
class ErrorBoundary extends Component<{ children: ReactNode }, Caught> {
  override state: Caught = { failure: "none" };

  static getDerivedStateFromError(error: unknown): Caught {
    return { failure: error instanceof NotLoaded ? "not loaded" : "crashed" };
  }

  override render() {
    switch (this.state.failure) {
      case "crashed":
        return <Crashed />;
      case "not loaded":
        return <ProblemNotice error={null} onRetry={() => void loadAgain()} />;
      default:
        return this.props.children;
    }
  }
}

/** Browsers cache a failed chunk, so the page is reloaded, but only once the gateway is reachable again. */
async function loadAgain(): Promise<void> {
  const isThere = await fetch(`${BASE}/`, { method: "HEAD" }).then(
    () => true,
    () => false,
  );
  if (isThere) location.reload();
}

function Crashed() {
  const { problem: t } = useText("kit");
  return (
    <EmptyState
      icon="alert"
      title={t.title}
      actions={<Button onClick={() => location.reload()}>{t.reload}</Button>}
    >
      <p>{t.crashed}</p>
    </EmptyState>
  );
}
