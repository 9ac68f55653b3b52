// The HTTP interface as a table, from which openapi-document.ts makes /openapi.json; why it is no code in the routes is told
// in decision 6. Tests hold it against the routes that there are, and its shapes against what they answer.
import * as z from 'zod';
import { agentsError } from '../agents/errors.ts';
import { journalError } from '../kernel/index.ts';
import { modelsError } from '../models/errors.ts';
import { setupError } from '../models/settings.ts';
import { setupChoice } from '../models/setup.ts';
import { sandboxError } from '../sandbox/errors.ts';
import { storeError } from '../store/errors.ts';
import { serverError } from './errors.ts';
import { decision } from './routes/approvals.ts';
import { backupQuery } from './routes/backup.ts';
import { forkRequest, listQuery, messagesQuery, titleRequest } from './routes/conversations.ts';
import { contentQuery, workspaceQuery } from './routes/workspace.ts';
import { usageQuery } from './routes/usage.ts';
import type { AnswerName } from './shapes.ts';
import { chatRequest } from './submission.ts';

export const catalogues = [
  serverError,
  journalError,
  storeError,
  agentsError,
  setupError,
  modelsError,
  sandboxError,
] as const;
type Catalogue = (typeof catalogues)[number];
type CodeOf<C> = C extends { folder: string; kinds: infer K } ? keyof K & string : never;
export type Code = `${string}.${CodeOf<Catalogue>}`;

export const requests = {
  ChatRequest: chatRequest,
  DecisionRequest: decision,
  ForkRequest: forkRequest,
  TitleRequest: titleRequest,
  SetupChoice: setupChoice,
} satisfies Record<string, z.ZodType>;

interface Answer {
  what: string;
  /** Of a JSON body; with `events`, of each event's data. */
  shape?: AnswerName;
  kind?: 'events' | 'bytes' | 'text';
}

export interface Route {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** As Hono writes it. */
  path: string;
  summary: string;
  /** Nobody is asked who they are. */
  isOpen?: true;
  query?: z.ZodObject;
  headers?: Record<string, string>;
  body?: keyof typeof requests | 'bytes';
  answers: Record<number, Answer>;
  /** Beside those that every route has. */
  errors?: Code[];
}

const key = {
  'Idempotency-Key': 'The same message with the same key is one run. 1 to 200 visible ASCII characters.',
};
const lastEvent = { 'Last-Event-ID': 'The id of the last event that was seen: what follows it is told.' };
const bodyErrors: Code[] = [
  'server.invalid_request',
  'server.invalid_json',
  'server.body_too_large',
  'server.unsupported_media_type',
];
const chatErrors: Code[] = [
  ...bodyErrors,
  'server.history_differs',
  'server.file_not_found',
  'journal.version_conflict',
  'journal.idempotency_key_reused',
  'agents.unknown',
  'agents.invalid_output',
  'models.not_configured',
];

const talking: Route[] = [
  {
    method: 'post',
    path: '/chat',
    summary: 'One message in, one run out.',
    headers: key,
    body: 'ChatRequest',
    answers: {
      200: { what: 'The run, ended.', shape: 'Run' },
      202: { what: 'The run waits for a person: see its `approvals`.', shape: 'Run' },
      500: { what: 'The run failed by a fault of the server; or what every route has.', shape: 'Run' },
      504: { what: 'The run took too long.', shape: 'Run' },
      502: { what: 'The run failed: `error` says why, and the rest what there is of it.', shape: 'Run' },
    },
    errors: [...chatErrors, 'journal.run_not_found'],
  },
  {
    method: 'post',
    path: '/chat/stream',
    summary: 'The same as a stream of events.',
    headers: key,
    body: 'ChatRequest',
    answers: { 200: { what: 'Events until `run_end` or `error`.', shape: 'RunEvent', kind: 'events' } },
    errors: chatErrors,
  },
  {
    method: 'get',
    path: '/runs/:id',
    summary: 'A run as it stands.',
    answers: { 200: { what: 'The run and its steps.', shape: 'RunWithSteps' } },
    errors: ['journal.run_not_found'],
  },
  {
    method: 'get',
    path: '/runs/:id/events',
    summary: 'The events of a run, from the first one or from where a client left.',
    query: z.object({ lastEventId: z.string().optional().describe('As the header Last-Event-ID.') }),
    headers: lastEvent,
    answers: {
      200: { what: 'Events until `run_end` or `error`.', shape: 'RunEvent', kind: 'events' },
      204: { what: 'There is nothing more: do not come back.' },
    },
    errors: ['journal.run_not_found', 'server.invalid_request'],
  },
  {
    method: 'get',
    path: '/runs/:id/results/:call',
    summary: 'The whole result of a call, where only its head and tail were shown.',
    answers: { 200: { what: 'The result.', shape: 'Result' } },
    errors: ['journal.run_not_found', 'server.not_found'],
  },
  {
    method: 'delete',
    path: '/runs/:id',
    summary: 'Stops a run.',
    answers: { 200: { what: 'Its status now.', shape: 'RunStatus' } },
    errors: ['journal.run_not_found'],
  },
  {
    method: 'post',
    path: '/approvals/:id',
    summary: 'Decides about a call that asks.',
    body: 'DecisionRequest',
    answers: { 200: { what: 'What was decided.', shape: 'Decided' } },
    errors: [...bodyErrors, 'journal.not_awaiting', 'journal.run_not_found'],
  },
];

const keeping: Route[] = [
  {
    method: 'get',
    path: '/conversations',
    summary: 'Conversations, newest first.',
    query: listQuery,
    answers: { 200: { what: 'A page; `next` is the `before` of the following one.', shape: 'Conversations' } },
    errors: ['server.invalid_request', 'store.invalid_cursor'],
  },
  {
    method: 'delete',
    path: '/conversations',
    summary: 'Deletes all conversations of the caller.',
    query: z.object({ confirm: z.literal('all') }),
    answers: { 200: { what: 'How many there were.', shape: 'Deleted' } },
    errors: ['server.invalid_request'],
  },
  {
    method: 'get',
    path: '/conversations/:id',
    summary: 'A conversation and its open runs.',
    answers: { 200: { what: 'The conversation.', shape: 'ConversationWithRuns' } },
    errors: ['server.conversation_not_found'],
  },
  {
    method: 'patch',
    path: '/conversations/:id',
    summary: 'Gives a conversation another title.',
    body: 'TitleRequest',
    answers: { 200: { what: 'The conversation.', shape: 'Conversation' } },
    errors: [...bodyErrors, 'server.conversation_not_found'],
  },
  {
    method: 'delete',
    path: '/conversations/:id',
    summary: 'Deletes a conversation; what forks share with it stays theirs.',
    answers: { 204: { what: 'It is not there any more.' } },
  },
  {
    method: 'get',
    path: '/conversations/:id/messages',
    summary: 'Entries of a conversation, oldest first.',
    query: messagesQuery,
    answers: { 200: { what: 'A page; `next` is the `after` of the following one.', shape: 'Messages' } },
    errors: ['server.invalid_request', 'server.conversation_not_found'],
  },
  {
    method: 'post',
    path: '/conversations/:id/fork',
    summary: 'A new conversation that shares the entries up to `after`.',
    body: 'ForkRequest',
    answers: { 201: { what: 'The new conversation.', shape: 'Conversation' } },
    errors: [...bodyErrors, 'store.fork_exists', 'store.fork_out_of_range'],
  },
  {
    method: 'get',
    path: '/events',
    summary: "What changes in the caller's conversations, here and on other processes, until the client leaves.",
    headers: lastEvent,
    answers: {
      200: {
        what: 'An event `run` for a run that changed, `conversation` for a conversation that got another title or was deleted.',
        shape: 'FeedEvent',
        kind: 'events',
      },
    },
  },
  {
    method: 'post',
    path: '/files',
    summary: 'Keeps a file, for the `files` of a chat request.',
    query: z.object({ name: z.string().optional().describe('For people; or the header X-File-Name.') }),
    headers: { 'X-File-Name': 'Its name, percent-encoded.' },
    body: 'bytes',
    answers: { 201: { what: 'The file.', shape: 'File' } },
    errors: ['server.invalid_request', 'server.unsupported_media_type', 'server.file_too_large'],
  },
  {
    method: 'get',
    path: '/files/:id',
    summary: 'The content of a file.',
    answers: { 200: { what: 'Its bytes.', kind: 'bytes' }, 304: { what: 'The client has them already.' } },
    errors: ['server.file_not_found', 'store.file_gone'],
  },
  {
    method: 'delete',
    path: '/files/:id',
    summary: 'Deletes a file of the caller; messages that name it name nothing from then on.',
    answers: { 204: { what: 'It is not there any more.' } },
  },
];

const noWorkspace: Code[] = ['server.conversation_not_found', 'server.no_sandbox', 'sandbox.workspace_busy'];
const working: Route[] = [
  {
    method: 'get',
    path: '/sandbox',
    summary: 'Where commands run, and how well they are isolated.',
    answers: { 200: { what: 'Its kind and capabilities.', shape: 'Sandbox' } },
  },
  {
    method: 'get',
    path: '/conversations/:id/files',
    summary: 'The files that the commands of a conversation work with.',
    query: workspaceQuery,
    answers: { 200: { what: 'Those of a folder, or all below it.', shape: 'WorkspaceFiles' } },
    errors: [...noWorkspace, 'server.invalid_request', 'sandbox.path_refused', 'sandbox.file_not_found'],
  },
  {
    method: 'get',
    path: '/conversations/:id/files/content',
    summary: 'The content of such a file.',
    query: contentQuery,
    answers: { 200: { what: 'Its bytes.', kind: 'bytes' }, 304: { what: 'The client has them already.' } },
    errors: [...noWorkspace, 'server.invalid_request', 'server.file_not_found', 'sandbox.path_refused'],
  },
  {
    method: 'put',
    path: '/conversations/:id/files/content',
    summary: 'Writes such a file, over one that is there.',
    query: contentQuery,
    body: 'bytes',
    answers: { 201: { what: 'The file.', shape: 'WorkspaceFile' } },
    errors: [
      ...noWorkspace,
      'server.invalid_request',
      'server.file_too_large',
      'sandbox.path_refused',
      'sandbox.file_too_large',
      'sandbox.disk_full',
    ],
  },
  {
    method: 'delete',
    path: '/conversations/:id/files/content',
    summary: 'Removes such a file, or a folder with all that is in it.',
    query: contentQuery,
    answers: { 204: { what: 'It is not there any more.' } },
    errors: [...noWorkspace, 'server.invalid_request', 'sandbox.path_refused'],
  },
];

const caring: Route[] = [
  {
    method: 'get',
    path: '/usage',
    summary: 'Tokens that were used, and what they cost.',
    query: usageQuery,
    answers: { 200: { what: 'Rows by the asked keys, and their sum.', shape: 'UsageReport' } },
    errors: ['server.invalid_request'],
  },
  {
    method: 'get',
    path: '/models',
    summary: 'Models that can be chosen.',
    answers: { 200: { what: 'Models and hosts.', shape: 'Models' } },
  },
  {
    method: 'get',
    path: '/setup',
    summary: 'How the model is set up; only for the owner.',
    answers: { 200: { what: 'Providers and the current choice, without keys.', shape: 'Setup' } },
    errors: ['server.not_found'],
  },
  {
    method: 'post',
    path: '/setup/test',
    summary: 'Tries a model by one live call.',
    body: 'SetupChoice',
    answers: { 200: { what: 'Whether it answered.', shape: 'Trial' } },
    errors: [...bodyErrors, 'server.not_found', 'setup.invalid', 'setup.busy'],
  },
  {
    method: 'post',
    path: '/setup',
    summary: 'Tries a model, and saves it where it answers.',
    body: 'SetupChoice',
    answers: {
      200: { what: 'It is saved and used from now on.', shape: 'TrialSaved' },
      422: { what: 'It did not answer, and nothing was saved.', shape: 'TrialFailed' },
    },
    errors: [...bodyErrors, 'server.not_found', 'setup.invalid', 'setup.busy'],
  },
  {
    method: 'delete',
    path: '/setup',
    summary: 'Forgets what was saved.',
    answers: { 200: { what: 'How the model is set up now.', shape: 'Setup' } },
    errors: ['server.not_found', 'setup.busy'],
  },
  {
    method: 'post',
    path: '/backup',
    summary: 'Everything in the database as one packed stream; only for the owner of a server of their own.',
    query: backupQuery,
    answers: { 200: { what: 'The backup, gzip.', kind: 'bytes' } },
    errors: ['server.invalid_request', 'server.not_found'],
  },
  {
    method: 'get',
    path: '/health',
    summary: 'Whether the server works; more to whom it knows.',
    isOpen: true,
    answers: {
      200: { what: 'It does.', shape: 'Health' },
      503: { what: 'Its database does not answer.', shape: 'Health' },
    },
  },
  {
    method: 'get',
    path: '/sign-in',
    summary: 'Redeems a one-time link for a cookie.',
    isOpen: true,
    query: z.object({ code: z.string() }),
    answers: { 303: { what: 'To the page, with the cookie.' } },
    errors: ['server.link_expired'],
  },
  {
    method: 'get',
    path: '/openapi.json',
    summary: 'This document.',
    answers: { 200: { what: 'OpenAPI 3.1.' } },
  },
  {
    method: 'get',
    path: '/',
    summary: 'The page; a few words for who is no browser.',
    isOpen: true,
    answers: { 200: { what: 'What there is.', kind: 'text' } },
  },
];

export const routes: readonly Route[] = [...talking, ...keeping, ...working, ...caring];
