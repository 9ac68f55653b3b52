// What the HTTP interface answers, as schemas: for /openapi.json, and for the tests that hold real answers against them.
// `satisfies` ties each to the type that the code works with, where there is one.
import * as z from 'zod';
import type { AgentEvent, Usage } from '../kernel/index.ts';
import type { ModelsList } from '../models/catalog.ts';
import type { SetupDescription } from '../models/setup.ts';
import type { Trial } from '../models/trial.ts';
import type { FileInfo, SandboxCapabilities } from '../sandbox/sandbox.ts';
import { isolations, sandboxKinds } from '../sandbox/sandbox.ts';
import type { ConversationSummary } from '../store/conversations.ts';
import type { ConversationChange, RunChange } from '../store/changes.ts';
import type { StoredFile } from '../store/files.ts';
import type { ErrorBody } from './errors.ts';
import type { RunView } from './routes/runs.ts';

const time = z.iso.datetime().describe('ISO-8601 UTC.');
const text = z.string();
const json = z.json();
const status = z.enum(['queued', 'running', 'waiting', 'done', 'failed', 'cancelled']);
const fault = z.strictObject({ code: text, message: text, hint: text });

const usage = z
  .strictObject({ inputTokens: z.int(), outputTokens: z.int(), reasoningTokens: z.int(), cachedTokens: z.int() })
  .describe(
    'Tokens; `cachedTokens` are part of `inputTokens`, `reasoningTokens` of `outputTokens`.',
  ) satisfies z.ZodType<Usage>;

const error = z.strictObject({
  error: fault.extend({
    requestId: text,
    data: z.record(text, z.union([text, z.number(), z.boolean(), z.null()])).optional(),
  }),
}) satisfies z.ZodType<ErrorBody>;

const isTruncated = z
  .literal(true)
  .optional()
  .describe('Only head and tail are here; GET /runs/{id}/results/{call} gives the whole.');

const run = z.strictObject({
  conversation: text,
  run: text,
  status,
  agent: text,
  model: text,
  text: text.describe('Of the last answer.'),
  toolCalls: z.array(
    z.strictObject({
      id: text,
      name: text,
      args: json,
      result: json.optional(),
      truncated: isTruncated,
      isError: z.boolean().optional(),
    }),
  ),
  approvals: z
    .array(z.strictObject({ id: text, call: text, why: text }))
    .describe('Open questions to a person; POST /approvals/{id} answers one.'),
  usage,
  costUsd: z.number().nullable().describe('Null where the configuration has no price of a model that was used.'),
  reason: text.optional(),
  final: json.optional().describe("The answer in the form of the request's `output`."),
  error: fault.extend({ requestId: text.optional() }).optional(),
  createdAt: time,
  endedAt: time.nullable(),
}) satisfies z.ZodType<RunView>;

const step = z.looseObject({
  n: z.int(),
  kind: z.enum(['model', 'tool']),
  call: text.nullable(),
  state: z.enum(['ready', 'awaiting', 'started', 'done']),
});

const conversation = z.strictObject({
  id: text,
  version: z.int().describe('Number of entries.'),
  title: text,
  agent: text,
  activeRun: text.nullable(),
  queued: z.int(),
  createdAt: time,
  updatedAt: time,
  fork: z.strictObject({ parent: text, seq: z.int() }).optional(),
}) satisfies z.ZodType<ConversationSummary>;

const runChange = z.strictObject({
  run: text,
  conversation: text,
  status,
  changedAt: time,
}) satisfies z.ZodType<RunChange>;

const conversationChange = z.union([
  z.strictObject({ id: text, changedAt: time, title: text }),
  z.strictObject({ id: text, changedAt: time, deleted: z.literal(true) }),
]) satisfies z.ZodType<ConversationChange>;

const message = z
  .looseObject({
    id: z.int(),
    kind: z.enum(['user', 'assistant', 'tool_result', 'summary', 'notice']),
    run: text,
    at: time,
    epoch: z.int().describe('Grows with each worker that takes the run over.'),
  })
  .describe('An entry of the journal: `parts` of a user or assistant, `result` of a call, `text` of a summary.');

const file = z.strictObject({
  id: text.describe('SHA-256 of the content.'),
  name: text,
  mime: text,
  bytes: z.int(),
}) satisfies z.ZodType<StoredFile>;

const usageNumbers = usage.extend({ costUsd: z.number().nullable() });

const host = z.strictObject({
  name: text,
  baseUrl: text.nullable(),
  isConfigured: z.boolean(),
  apiKeyEnv: text.nullable(),
  hasKey: z.boolean(),
  prefixes: z.array(text),
  isReachable: z.boolean().nullable(),
});

const models = z.strictObject({
  default: text,
  isDemo: z.boolean(),
  models: z.array(z.strictObject({ name: text, host: text })),
  hosts: z.array(host),
  canSetUp: z.boolean(),
}) satisfies z.ZodType<ModelsList & { canSetUp: boolean }>;

const keySource = z.enum(['env', 'file']).nullable();
const setup = z.strictObject({
  providers: z.array(
    z.strictObject({
      id: text,
      label: text,
      kind: text,
      needsKey: z.boolean(),
      needsBaseUrl: z.boolean(),
      baseUrl: text.nullable(),
      exampleBaseUrl: text.nullable(),
      exampleModel: text.nullable(),
      apiKeyEnv: text.nullable(),
      hasKey: z.boolean(),
      keySource,
    }),
  ),
  current: z.strictObject({
    provider: text,
    model: text,
    baseUrl: text.nullable(),
    hasKey: z.boolean(),
    keySource,
    source: z.enum(['config', 'env', 'file', 'found', 'demo']),
  }),
  saved: z.strictObject({ provider: text, model: text, baseUrl: text, hasKey: z.boolean() }).nullable(),
  overriddenBy: z.array(z.strictObject({ setting: z.enum(['model', 'baseUrl', 'apiKey']), by: text })),
  isDemo: z.boolean(),
  problem: text.nullable(),
}) satisfies z.ZodType<SetupDescription>;

const trialFailed = z.strictObject({
  ok: z.literal(false),
  ms: z.int(),
  error: fault.extend({ requestId: text.optional() }),
});
const trial = z.discriminatedUnion('ok', [
  z.strictObject({ ok: z.literal(true), ms: z.int(), text }),
  trialFailed,
]) satisfies z.ZodType<Trial>;

const result = z.strictObject({
  id: text,
  name: text,
  result: json,
  truncated: isTruncated,
  isError: z.boolean(),
  fault: z.enum(['denied', 'stopped', 'outcome_unknown']).optional(),
  ms: z.number(),
  args: json.optional(),
});

const workspaceFile = z.strictObject({
  path: text.describe('Below the workspace.'),
  kind: z.enum(['file', 'folder', 'link', 'other']),
  bytes: z.int(),
  modifiedAt: z.number().describe('Milliseconds since 1970.'),
  isExecutable: z.boolean(),
}) satisfies z.ZodType<FileInfo>;

const sandbox = z.strictObject({
  kind: z.enum(sandboxKinds),
  description: text,
  isolation: z.enum(isolations),
  hasPrograms: z.boolean(),
  hasNetwork: z.boolean(),
  keepsBackground: z.boolean(),
  killsAll: z.boolean(),
  memoryLimit: z.enum(['none', 'process', 'total']),
  diskLimit: z.enum(['none', 'file', 'total']),
  hasProcessLimit: z.boolean(),
}) satisfies z.ZodType<SandboxCapabilities>;

/** The `data` of an event of a run, without `type`, which is the event's name. */
const event = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('run_start'),
    run: text,
    conversation: text,
    agent: text,
    model: text,
    at: time,
  }),
  z.strictObject({ type: z.literal('reasoning'), text }),
  z.strictObject({ type: z.literal('token'), text }),
  z.strictObject({
    type: z.literal('tool_call'),
    calls: z.array(z.strictObject({ id: text, name: text, title: text, icon: text.optional(), args: json })),
  }),
  z.strictObject({ type: z.literal('tool_output'), id: text, text }),
  z.strictObject({ type: z.literal('tool_result'), results: z.array(result) }),
  z.strictObject({ type: z.literal('approval_request'), id: text, call: text, why: text, rule: text.optional() }),
  z.strictObject({
    type: z.literal('approval_decision'),
    id: text,
    call: text,
    effect: z.enum(['allow', 'deny']),
    comment: text.optional(),
  }),
  z.strictObject({ type: z.literal('step_restart') }),
  z.strictObject({ type: z.literal('warning'), code: text, message: text, data: z.record(text, json).optional() }),
  z.strictObject({ type: z.literal('usage'), usage, model: text }),
  z.strictObject({
    type: z.literal('run_end'),
    reason: z.enum(['done', 'length', 'content_filter', 'max_steps', 'cancelled']),
    usage,
    ms: z.number(),
    final: json.optional(),
  }),
  z.strictObject({ type: z.literal('error'), code: text, message: text, hint: text }),
]) satisfies z.ZodType<AgentEvent>;

/** By the names that they have in /openapi.json. */
export const answers = {
  Error: error,
  Usage: usage,
  Run: run,
  RunWithSteps: run.extend({ steps: z.array(step) }),
  RunStatus: z.strictObject({ run: text, status }),
  RunEvent: event,
  RunChange: runChange,
  FeedEvent: z.union([runChange, conversationChange]),
  Conversation: conversation,
  ConversationWithRuns: conversation.extend({ runs: z.array(runChange) }),
  Conversations: z.strictObject({ conversations: z.array(conversation), next: text.nullable() }),
  Deleted: z.strictObject({ deleted: z.int() }),
  Messages: z.strictObject({ version: z.int(), messages: z.array(message), next: z.int().nullable() }),
  File: file,
  Decided: z.strictObject({ id: text, decision: z.enum(['allow', 'deny']) }),
  UsageReport: z.strictObject({
    rows: z.array(
      usageNumbers.extend({
        model: text,
        steps: z.int(),
        day: text.optional(),
        conversation: text.optional(),
        run: text.optional(),
      }),
    ),
    total: usageNumbers,
  }),
  Models: models,
  Setup: setup,
  Trial: trial,
  TrialSaved: z.strictObject({ ok: z.literal(true), ms: z.int(), text, setup }),
  TrialFailed: trialFailed,
  Result: z.strictObject({ id: text, name: text, result: json, isError: z.boolean(), ms: z.number() }),
  WorkspaceFile: workspaceFile,
  WorkspaceFiles: z.strictObject({ path: text, files: z.array(workspaceFile), isComplete: z.boolean() }),
  Sandbox: z.union([sandbox, z.strictObject({ kind: z.literal('off') })]),
  Health: z.looseObject({ status: z.enum(['ok', 'degraded', 'store_unreachable']) }),
} satisfies Record<string, z.ZodType>;

export type AnswerName = keyof typeof answers;
