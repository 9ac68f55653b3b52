import type { Readable } from 'node:stream';
import type { JsonSchema } from '../agents/output.ts';
import type { PriceOf } from '../models/prices.ts';
import type { UsageReport } from '../store/usage.ts';
import type { ModelsList } from '../models/catalog.ts';
import type { Setup } from '../models/setup.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import type { Conversations } from '../store/conversations.ts';
import type { Files } from '../store/files.ts';
import type { Health } from '../store/health.ts';
import type { Caller, Identity } from '../access/identity.ts';
import type { SignIn } from '../access/sign-in.ts';
import type { Seal } from '../access/seal.ts';
import type { Journal, Log, Mask, Runner } from '../kernel/index.ts';
import type { Feed } from './feed.ts';
import type { Page } from './static.ts';

/** What routes work with; app.ts builds it. */
export interface ServerParts {
  runner: Runner;
  usage: UsageReport;
  priceOf: PriceOf;
  journal: Journal;
  conversations: Conversations;
  files: Files;
  /** Absent where there is no sandbox. */
  sandboxes?: Sandboxes;
  /** Hides in the record what a client sent in secret. */
  seal: Seal;
  /** What is shown of arguments and results. */
  mask: Mask;
  feed: Feed;
  identity: Identity;
  /** Absent where a host has its own sign-in. */
  signIn?: SignIn;
  /** The agent's and the model's names for a request, or an error that says what is missing. */
  resolve: (wanted: { agent?: string; modelName?: string; output?: JsonSchema }) => { agent: string; model: string };
  /** What people can choose. */
  listModels: () => Promise<ModelsList>;
  /** Choosing the model while the server runs, and who may; absent where the host does that. */
  setup?: { models: Setup; isFor: (caller: Caller) => boolean };
  /** The built page; absent where the host has its own. */
  page?: Page;
  /** Whether the database can be written to; and, where there is one owner, a whole backup as packed bytes. */
  care: { health: Health; pack?: (options: { hasSecrets: boolean }) => Promise<Readable> };
  /** The store answers, within two seconds. */
  isReachable: () => Promise<boolean>;
  /** What a caller may know of the server's state. */
  describe: () => Record<string, unknown>;
  log: Log;
  config: {
    bodyLimitBytes: number;
    fileLimitBytes: number;
    heartbeatMs: number;
    backlogBytes: number;
    /** Host names (with or without port) by which the server may be called; null: the host checks that. */
    hosts: readonly string[] | null;
    /** Names (with or without port) whose pages may call it beside its own. */
    origins: readonly string[];
  };
}

export interface ServerEnvironment {
  Variables: { caller: Caller; requestId: string };
  Bindings: { outgoing?: import('node:http').ServerResponse; incoming?: import('node:http').IncomingMessage };
}
