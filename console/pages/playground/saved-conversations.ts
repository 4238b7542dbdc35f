/** Conversations of the playground are kept in this browser only, separately for each user. */

import type { Conversation } from "./conversation.ts";

const DATABASE = "playground";
const STORE = "conversations";
const VERSION = 1;

/** The oldest ones above it are deleted. */
const SAVED_MAX = 50;

interface SavedConversation extends Conversation {
  readonly userId: string;
}

/** Newest first. */
export async function listConversations(userId: string): Promise<Conversation[]> {
  const kept = await withStore("readonly", (store) => store.getAll() as IDBRequest<SavedConversation[]>);
  return kept.filter((one) => one.userId === userId).sort((a, b) => b.atMs - a.atMs);
}

export async function saveConversation(userId: string, conversation: Conversation): Promise<void> {
  await withStore("readwrite", (store) => store.put({ ...conversation, userId }));
  for (const { id } of (await listConversations(userId)).slice(SAVED_MAX)) await deleteConversation(id);
}

export async function deleteConversation(id: string): Promise<void> {
  await withStore("readwrite", (store) => store.delete(id));
}

async function withStore<Value>(
  mode: IDBTransactionMode,
  work: (store: IDBObjectStore) => IDBRequest<Value>,
): Promise<Value> {
  const database = await openDatabase();
  try {
    return await settled(work(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

function openDatabase(): Promise<IDBDatabase> {
  const opening = indexedDB.open(DATABASE, VERSION);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
  return settled(opening);
}

function settled<Value>(request: IDBRequest<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
