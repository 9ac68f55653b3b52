// What can go wrong with a model, and how a provider's answer is sorted into that.
import type { AgentError } from '../kernel/errors.ts';
import { defineErrors } from '../kernel/errors.ts';
import { isRecord } from './json.ts';

const again = 'Try again later, or choose another model.';

/** `retryable` means that the same call may succeed later. A wait the provider asked for is in `data.retryAfterMs`. */
export const modelsError = defineErrors('models', {
  not_configured: {
    status: 400,
    hint: 'Set the missing environment variable and start again, or choose another model.',
  },
  auth: { status: 502, hint: 'Check the API key of this provider, and that it may use this model.' },
  quota: { status: 502, hint: 'Top up the account at the provider, or choose another model.' },
  rate_limited: { status: 503, hint: again, retryable: true },
  overloaded: { status: 503, hint: again, retryable: true },
  unavailable: { status: 502, hint: again, retryable: true },
  bad_request: { status: 502, hint: 'The provider refused the request: look at its message, or choose another model.' },
  context_length: {
    status: 502,
    hint: 'Start a new conversation, lower the window, or choose a model with a larger one.',
  },
  not_found: { status: 502, hint: 'Check the name of the model and the base URL of its host.' },
  network: { status: 502, hint: 'Check the network, and the base URL in models.hosts.', retryable: true },
  timeout_first: { status: 504, hint: 'Try again, or raise models.limits.firstTokenMs.', retryable: true },
  timeout_idle: { status: 504, hint: 'Try again, or raise models.limits.idleMs.', retryable: true },
  timeout_total: { status: 504, hint: 'Ask for less at once, or raise models.limits.totalMs.' },
  stream_cut: { status: 502, hint: 'Send the message again.', retryable: true },
  stream_invalid: {
    status: 502,
    hint: 'Check that the base URL is that of an OpenAI-compatible API.',
    retryable: true,
  },
  error: { status: 502, hint: again },
});

type Kind = keyof (typeof modelsError)['kinds'];

/** What a provider answered instead of an answer. */
export interface ProviderFailure {
  provider: string;
  /** HTTP status; absent for an error inside a 200. */
  status?: number;
  /** Parsed JSON, or the text as it came. */
  body: unknown;
  /** Never shown, whatever the provider repeats: keys and header values. */
  secrets?: readonly string[];
  retryAfterMs?: number;
}

/** The provider's own message, sorted by class, without keys and without web pages. */
export function toProviderError(failure: ProviderFailure): AgentError {
  const { provider, body, secrets = [], retryAfterMs } = failure;
  const said = readBody(body);
  const status = failure.status ?? said.status;
  const text = mask(toLine(said.message), secrets);
  const what = failure.status === undefined ? 'reported an error' : `answered ${failure.status}`;
  const data = {
    provider,
    ...(status !== undefined && { httpStatus: status }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
  const kind = classify(status, `${said.code} ${said.message}`.toLowerCase());
  return modelsError(kind, `${provider} ${what}${text ? `: ${text}` : ' without saying why.'}`, { data });
}

interface Said {
  message: string;
  /** Codes and types in the provider's words, for `classify` only. */
  code: string;
  status?: number;
}

function readBody(body: unknown): Said {
  if (typeof body === 'string') return { message: body, code: '' };
  if (Array.isArray(body)) return readBody(body[0]);
  if (!isRecord(body)) return { message: '', code: '' };
  const inner = body.error || body.errors || body.detail;
  if (isRecord(inner) || Array.isArray(inner) || (typeof inner === 'string' && typeof body.message !== 'string')) {
    const said = readBody(inner);
    return { ...said, code: `${said.code} ${codeOf(body)}` };
  }
  const message = [body.message, body.msg, body.error_msg].find((value) => typeof value === 'string' && value);
  const status = [body.status, body.code].map(Number).find((number) => number >= 400 && number < 600);
  return {
    message: typeof message === 'string' ? message : '',
    code: codeOf(body),
    ...(status !== undefined && { status }),
  };
}

function codeOf({ code, type, status, error }: Record<string, unknown>): string {
  return [code, type, status, error].filter((value) => typeof value === 'string').join(' ');
}

/** One line of at most 500 characters; nothing of a web page. */
function toLine(text: string): string {
  if (/<(!doctype|html|head|body|script)\b/i.test(text)) return '';
  const line = text.replace(/[\s\u0000-\u001f]+/g, ' ').trim();
  return line.length > 500 ? `${line.slice(0, 500).toWellFormed()}...` : line;
}

const keyShapes = [
  /\bBearer\s+[^\s"']+/gi,
  /\b(?:sk|pk|rk|ak|gsk|xai|hf|r8|ghp|tgp|nvapi|pplx)[-_][\w*.-]{4,}/gi,
  /\bAIza[\w-]{10,}/g,
  /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+/g,
  /[\w.-]*\*{3,}[\w*.-]*/g,
];

/** Replaces the given secrets, whole or shortened, and whatever is shaped like a key. */
export function mask(text: string, secrets: readonly string[]): string {
  let masked = text;
  for (const secret of secrets) {
    if (secret.length < 6) continue;
    masked = masked.replaceAll(secret, '[masked]');
    if (secret.length < 16) continue;
    const [start, end] = [secret.slice(0, 8), secret.slice(-6)].map((part) => part.replace(/[^\w-]/g, '\\$&'));
    masked = masked.replace(new RegExp(`${start}[\\w*.-]*|[\\w*.-]*${end}`, 'g'), '[masked]');
  }
  return keyShapes.reduce((result, shape) => result.replace(shape, '[masked]'), masked);
}

/** The first rule whose statuses and words fit. Statuses absent: any, also none. */
const rules: { kind: Kind; statuses: (number | undefined)[]; words: RegExp }[] = [
  {
    kind: 'quota',
    statuses: [400, 402, 403, 429, undefined],
    words: /insufficient.?(quota|balance|credit|funds)|current quota|arrear|billing|credit balance|payment.required/,
  },
  {
    kind: 'context_length',
    statuses: [400, 413, 422, undefined],
    words: /context.?length|context window|maximum context|prompt is too long|range of input length|input is too long/,
  },
  {
    kind: 'not_found',
    statuses: [400, 404, undefined],
    words: /model.?(is.)?not.?(found|exist)|model\b.*does not exist|no such model|unknown model|invalid.?model/,
  },
  {
    kind: 'auth',
    statuses: [400, 401, 403, undefined],
    words: /(invalid|incorrect|missing).?api.?key|authenticat|unauthori[sz]ed|permission.?denied/,
  },
  { kind: 'rate_limited', statuses: [undefined], words: /rate.?limit|too many requests|throttl/ },
  { kind: 'overloaded', statuses: [500, undefined], words: /overload|busy|capacity|system.?resource|unavailable/ },
  { kind: 'bad_request', statuses: [undefined], words: /invalid.?(request|param)|bad.?request/ },
  { kind: 'unavailable', statuses: [undefined], words: /time.?out|timed out|internal|server.?error|upstream|gateway/ },
];

const byStatus: Record<number, Kind> = {
  401: 'auth',
  402: 'quota',
  403: 'auth',
  404: 'not_found',
  408: 'unavailable',
  409: 'unavailable',
  425: 'unavailable',
  429: 'rate_limited',
  503: 'overloaded',
  529: 'overloaded',
};

function classify(status: number | undefined, words: string): Kind {
  const rule = rules.find((rule) => rule.statuses.includes(status) && rule.words.test(words));
  if (rule) return rule.kind;
  if (status === undefined) return 'error';
  return byStatus[status] ?? (status >= 500 ? 'unavailable' : status >= 400 ? 'bad_request' : 'error');
}
