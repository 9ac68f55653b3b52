import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/kernel/errors.ts';
import type { Model, ModelPart, ModelRequest } from '../../src/kernel/model.ts';
import type { Action, Rule } from '../../src/models/actions.ts';
import { actionOf, errorRules } from '../../src/models/actions.ts';
import { createPackageModel } from '../../src/models/ai-sdk.ts';
import { createBreaker } from '../../src/models/breaker.ts';
import { modelsError } from '../../src/models/errors.ts';
import { createFailoverModel } from '../../src/models/failover.ts';
import { createOpenAIWireModel } from '../../src/models/openai-wire.ts';
import { createResilientModel } from '../../src/models/resilient.ts';
import { createScriptedModel } from '../../src/models/scripted.ts';
import type { ModelServerReply, ModelServerStep } from '../../src/testing/model-server.ts';
import { createModelServer } from '../../src/testing/model-server.ts';
import type { FailingHost } from './failing-hosts.ts';
import {
  createAbsentHost,
  createPlainHost,
  createResettingHost,
  createStrangeHost,
  createUntrustedHost,
} from './failing-hosts.ts';

const ruleTable: [keyof typeof errorRules, Rule['class'], Rule['before'], Rule['after'], boolean][] = [
  ['bad_request', 'request', 'end', 'end', false],
  ['context_length', 'request', 'end', 'end', false],
  ['not_found', 'request', 'next', 'next', false],
  ['not_configured', 'auth', 'next', 'next', false],
  ['file_unsupported', 'request', 'next', 'next', false],
  ['package_missing', 'auth', 'next', 'next', false],
  ['auth', 'auth', 'next', 'next', false],
  ['quota', 'quota', 'next', 'next', false],
  ['rate_limited', 'overload', 'retry', 'restart', false],
  ['overloaded', 'overload', 'retry', 'restart', true],
  ['unavailable', 'overload', 'retry', 'restart', true],
  ['network', 'network', 'retry', 'restart', true],
  ['timeout_first', 'network', 'retry', 'restart', true],
  ['timeout_idle', 'network', 'retry', 'restart', true],
  ['stream_cut', 'network', 'retry', 'restart', false],
  ['stream_invalid', 'output', 'retry', 'restart', false],
  ['host_down', 'network', 'next', 'next', false],
  ['timeout_total', 'limits', 'end', 'end', false],
  ['error', 'output', 'next', 'next', false],
];

describe('G10, C2: each error of a model has its class and action', () => {
  it.each(ruleTable)('%s: %s, %s before the first part, %s after it, host ill: %s', (kind, ...expected) => {
    const rule = errorRules[kind];
    expect([rule.class, rule.before, rule.after, rule.isHostIll]).toEqual(expected);
  });

  it('is full, and agrees with the catalogue on what may pass', () => {
    expect(ruleTable.map(([kind]) => kind).sort()).toEqual(Object.keys(errorRules).sort());
    for (const [kind, { retryable = false }] of Object.entries(modelsError.kinds) as [
      keyof typeof modelsError.kinds,
      { retryable?: boolean },
    ][]) {
      // That host is not asked again at once: its breaker says so.
      const isAskedAgain = kind === 'host_down' || errorRules[kind].before === 'retry';
      expect([kind, isAskedAgain]).toEqual([kind, retryable]);
    }
  });

  it('an error that it does not know ends, unless it says that it may pass', () => {
    expect(actionOf(new Error('bug'), false)).toBe('end');
    expect(actionOf('text', true)).toBe('end');
    expect(actionOf(new AgentError('own.busy', { status: 503, hint: '', retryable: true }, 'busy'), false)).toBe(
      'retry',
    );
    expect(actionOf(new AgentError('own.no', { status: 400, hint: '' }, 'no'), false)).toBe('end');
  });
});

const KEY = 'sk-verysecret0123456789';
const TENANT = 'tenant-42-verysecret';
const secrets = `${KEY} Bearer ${KEY} ${TENANT}`;
const request: ModelRequest = {
  system: '',
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  tools: [],
};

/** A refusal that repeats what must not be shown. */
const refuses = (status: number, message = 'no', headers = {}): ModelServerReply => ({
  status,
  json: { error: { message: `${message} ${secrets}` } },
  headers,
});
const inTenMinutes = () => new Date(Date.now() + 600_000).toUTCString();
const begun: ModelServerStep = { text: 'one two' };
const slowly = Array.from({ length: 60 }, (): ModelServerStep[] => [{ text: 'a' }, { delayMs: 10 }]).flat();

/** What happens, what it is, what is done, and whether the host's breaker counts it. */
type Failing = ModelServerReply | (() => Promise<FailingHost>);
const failures: [string, keyof typeof errorRules, Action, boolean, Failing][] = [
  ['400, the shape', 'bad_request', 'end', false, refuses(400, 'messages.3: tool result without a call')],
  ['400, too long', 'context_length', 'end', false, refuses(400, 'maximum context length is 8192')],
  ['400, unknown model', 'not_found', 'next', false, refuses(400, 'Model Not Exist')],
  ['401', 'auth', 'next', false, refuses(401)],
  ['402', 'quota', 'next', false, refuses(402)],
  ['403', 'auth', 'next', false, refuses(403)],
  ['404, unknown model', 'not_found', 'next', false, refuses(404, 'The model `x` does not exist')],
  ['408', 'unavailable', 'retry', true, refuses(408)],
  ['409', 'unavailable', 'retry', true, refuses(409)],
  ['413', 'context_length', 'end', false, refuses(413, 'Request Entity Too Large')],
  ['422', 'bad_request', 'end', false, refuses(422)],
  ['429', 'rate_limited', 'retry', false, refuses(429)],
  ['429, retry-after 0', 'rate_limited', 'retry', false, refuses(429, 'no', { 'retry-after': '0' })],
  ['429, in ten minutes', 'rate_limited', 'next', false, refuses(429, 'no', { 'retry-after': '600' })],
  ['429, at a date', 'rate_limited', 'next', false, refuses(429, 'no', { 'retry-after': inTenMinutes() })],
  ['429, no quota', 'quota', 'next', false, refuses(429, 'You exceeded your current quota')],
  ['500', 'unavailable', 'retry', true, refuses(500)],
  ['502, a page', 'unavailable', 'retry', true, { status: 502, json: `<html>${secrets}` }],
  ['503', 'overloaded', 'retry', true, refuses(503)],
  ['504', 'unavailable', 'retry', true, refuses(504)],
  ['529', 'overloaded', 'retry', true, refuses(529)],
  ['ECONNREFUSED', 'network', 'retry', true, createAbsentHost],
  ['ECONNRESET before the answer', 'network', 'retry', true, createResettingHost],
  ['a cut before the first part', 'stream_cut', 'retry', false, [{ cut: true }]],
  ['a cut after it', 'stream_cut', 'restart', false, [begun, { cut: true }]],
  ['an end without a finish', 'stream_cut', 'restart', false, [begun, { end: true }]],
  ['no TLS', 'network', 'retry', true, createPlainHost],
  ['no HTTP', 'network', 'retry', true, createStrangeHost],
  ['an untrusted certificate', 'network', 'retry', true, createUntrustedHost],
  ['silence', 'timeout_first', 'retry', true, [{ hang: true }]],
  ['silence in the answer', 'timeout_idle', 'restart', true, [begun, { hang: true }]],
  ['an answer without end', 'timeout_total', 'end', false, slowly],
  ['200, broken JSON', 'stream_invalid', 'retry', false, [{ raw: 'data: {"choices": [\n\n' }, { end: true }]],
  ['200, an overload', 'overloaded', 'retry', true, { json: { error: { message: `server overloaded ${secrets}` } } }],
  ['200, a page', 'stream_invalid', 'retry', false, { json: `<html>${secrets}` }],
];

const adapters: [string, (baseUrl: string) => Model][] = [
  ['our own wire', (baseUrl) => createOpenAIWireModel({ ...common, baseUrl })],
  ['a package', (baseUrl) => createPackageModel({ ...common, baseUrl, kind: 'deepseek' })],
];
const common = {
  name: 'a',
  model: 'a',
  provider: 'host',
  apiKey: KEY,
  headers: { 'x-tenant': TENANT },
  limits: { firstTokenMs: 150, idleMs: 150, totalMs: 400 },
};

describe.each(adapters)('G10, MODEL-08 over real sockets, through %s', (_, create) => {
  it.each(failures)('%s is %s: %s, counted: %s', async (_, kind, action, isCounted, reply) => {
    await using host = await (typeof reply === 'function' ? reply() : createModelServer([reply]));
    const bare = create(host.url);
    const errors: unknown[] = [];
    const counted: Model = {
      name: 'a',
      call: (...args) => bare.call(...args).catch((error: unknown) => (errors.push(error), Promise.reject(error))),
    };
    const breaker = createBreaker({ host: 'host', failures: 1 });
    const other = createScriptedModel(() => 'fine', { name: 'b' });
    const tries = createResilientModel(counted, { retries: 1, restarts: 1, baseMs: 1 });
    const parts: ModelPart[] = [];
    const answer = createFailoverModel([breaker.guard(tries), other]).call(
      request,
      new AbortController().signal,
      (part) => parts.push(part),
    );
    const [end] = await Promise.allSettled([answer]);
    expect(errors[0]).toMatchObject({ name: 'AgentError', code: `models.${kind}` });
    const again = action === 'retry' || action === 'restart' ? 2 : 1;
    expect([errors.length, other.requests.length]).toEqual([again, action === 'end' ? 0 : 1]);
    const told = parts.map((part) => (part.type === 'warning' ? part.code : part.type));
    expect(told.includes('models.retry')).toBe(action === 'retry');
    expect(told.includes('models.restarted')).toBe(action === 'restart');
    expect(breaker.state).toBe(isCounted ? 'open' : 'closed');
    expect(end.status).toBe(action === 'end' ? 'rejected' : 'fulfilled');
    expect(inspect([errors, parts, end], { depth: 9, showHidden: true })).not.toContain('verysecret');
  });

  it.each([
    ['nobody', createAbsentHost, 'nothing listens there'],
    ['a cut', createResettingHost, 'the connection was closed'],
    ['no TLS', createPlainHost, 'it does not speak TLS there'],
    ['no HTTP', createStrangeHost, 'it does not speak HTTP there (HPE_INVALID_CONSTANT)'],
    ['no trust', createUntrustedHost, 'its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)'],
  ])('says what is wrong on the way: %s', async (_, createHost, words) => {
    await using host = await createHost();
    const answer = create(host.url).call(request, new AbortController().signal, () => undefined);
    await expect(answer).rejects.toThrow(`: ${words}.`);
  });
});
