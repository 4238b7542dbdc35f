/** Which page is shown: the address decides, and who is signed in. */

import { QueryClientProvider } from "@tanstack/react-query";
import {
  Component,
  type ComponentType,
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useMemo,
  useRef,
} from "react";
import { Redirect, Route, Router, Switch, useLocation, useSearch } from "wouter";
import { openQueryClient } from "./data.ts";
import { PAGES, type PageEntry, type PageProps } from "./pages.tsx";
import { SessionProvider, useSession } from "./session.tsx";
import { Shell } from "./shell/shell.tsx";
import type { Catalogue, Language } from "./text/catalogue.ts";
import { SpeechProvider, useText } from "./text/text.tsx";
import { Button, LinkButton } from "./ui/button.tsx";
import { EmptyState, ProblemNotice } from "./ui/notice.tsx";
import { Bare, Page, PageHeader, Skeleton } from "./ui/page.tsx";
import { ToastProvider } from "./ui/toast.tsx";

const BASE = "/console";

export function App({ language, texts }: { language: Language; texts: Catalogue }) {
  return (
    <SpeechProvider language={language} texts={texts}>
      <Router base={BASE}>
        <ToastProvider>
          <Data>
            <SessionProvider failed={(retry) => <Unreachable retry={retry} />}>
              <Pages />
            </SessionProvider>
          </Data>
        </ToastProvider>
      </Router>
    </SpeechProvider>
  );
}

function Data({ children }: { children: ReactNode }) {
  const client = useMemo(() => {
    const made = openQueryClient(() => void made.invalidateQueries({ queryKey: ["session.current"] }));
    return made;
  }, []);
  return <QueryClientProvider client={client}>{children}</QueryClientProvider>;
}

/** Another page begins at its top; one that is gone back to, where it was left. */
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the change of the path that matters.
  useEffect(() => {
    if (!isBack.current) scrollTo(0, 0);
    isBack.current = false;
  }, [path]);
}

const COMPONENTS = new Map<PageEntry, ComponentType<PageProps>>(PAGES.map((page) => [page, lazy(page.load)]));

function Pages() {
  const { user } = useSession();
  useTopOfPage();
  return (
    <Switch>
      {PAGES.map((page) => (
        <Route key={page.path} path={page.path}>
          {(params) => <Guarded page={page} params={params} />}
        </Route>
      ))}
      <Route path="/">
        {user === null ? <SignInFirst /> : <Redirect to={startPage(user.role)} replace />}
      </Route>
      <Route>
        {user === null ? (
          <SignInFirst />
        ) : (
          <Shell>
            <NotFound />
          </Shell>
        )}
      </Route>
    </Switch>
  );
}

/** Administrators look after the place; everybody else came for a key. */
function startPage(role: "user" | "admin"): string {
  const first = PAGES.find(({ who, nav }) => who === role && nav !== undefined);
  return first?.path ?? "/usage";
}

function Guarded({ page, params }: { page: PageEntry; params: PageProps["params"] }) {
  const { user } = useSession();
  const Shown = COMPONENTS.get(page);
  if (Shown === undefined) return null;
  const shown = (
    <Catcher key={page.path}>
      <Suspense fallback={<PageSkeleton />}>
        <Shown params={params} />
      </Suspense>
    </Catcher>
  );
  if (page.who === "anyone") return shown;
  if (user === null) return <SignInFirst />;
  return <Shell>{page.who === "admin" && user.role !== "admin" ? <Forbidden /> : shown}</Shell>;
}

/** Afterwards they come back to where they wanted to go. */
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
  const t = useText("common");
  return (
    <div className="page" role="status" aria-label={t.loading}>
      <Skeleton width={180} height={26} />
      <Skeleton height={220} />
    </div>
  );
}

/** A page that fails takes only itself down, and says so. */
class Catcher extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    return this.state.failed ? <Crashed /> : this.props.children;
  }
}

function Crashed() {
  const { problem: t } = useText("common");
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
