// What can go wrong with a model, and how a provider's answer is sorted into that.
import type { AgentError } from '../kernel/errors.ts';
import { defineErrors } from '../kernel/errors.ts';
import { isRecord, parseJson } from './json.ts';

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
  file_unsupported: { status: 400, hint: 'Choose a model that takes such files, or send what matters as text.' },
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
  host_down: { status: 503, hint: again, retryable: true },
  package_missing: { status: 502, hint: 'Install the package and start again, or choose another model.' },
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

/** Characters of a foreign code and message that are looked through, and objects within objects. */
const MOST_READ = 2000;
const MOST_NESTED = 8;

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
  const words = [said.code, said.message].map((text) => text.slice(0, MOST_READ)).join(' ');
  const kind = classify(status, words.toLowerCase());
  return modelsError(kind, `${provider} ${what}${text ? `: ${text}` : ' without saying why.'}`, { data });
}

/** A refusal as it came over HTTP: its body as text, and headers of node or of a package. */
export interface Refusal {
  provider: string;
  status: number;
  text: string;
  headers: unknown;
  secrets: readonly string[];
}

export function toRefusal({ provider, status, text, headers, secrets }: Refusal): AgentError {
  const retryAfterMs = toWait(headers);
  const wait = retryAfterMs !== undefined && { retryAfterMs };
  return toProviderError({ provider, status, body: parseJson(text) ?? text, secrets, ...wait });
}

/** Milliseconds that the host asks to wait: a number of them, of seconds, or a date. */
function toWait(headers: unknown): number | undefined {
  if (!isRecord(headers)) return undefined;
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (exact >= 0) return exact;
  const after = headers['retry-after'];
  if (typeof after !== 'string' || !after) return undefined;
  const seconds = Number(after);
  const wait = Number.isNaN(seconds) ? Date.parse(after) - Date.now() : seconds * 1000;
  return wait >= 0 ? Math.round(wait) : undefined;
}

/** What node's codes mean, for people. */
const networkReasons = new Map([
  ['ECONNREFUSED', 'nothing listens there'],
  ['ENOTFOUND', 'there is no such host'],
  ['EAI_AGAIN', 'the name server does not answer'],
  ['ECONNRESET', 'the connection was closed'],
  ['ETIMEDOUT', 'the connection timed out'],
  ['EPROTO', 'it does not speak TLS there'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'it does not speak TLS there'],
]);

function toNetworkReason(code: string): string {
  if (/CERT|SIGNATURE/.test(code)) return `its certificate is not trusted (${code})`;
  if (code.startsWith('HPE_')) return `it does not speak HTTP there (${code})`;
  return networkReasons.get(code) ?? code;
}

export interface NetworkFailure {
  provider: string;
  /** Host and port only: a path or a query may hold a secret. */
  place?: string;
  /** Node's own error; never one that holds the request. */
  cause?: unknown;
}

/** What goes wrong on the way, by the code of node's own error. */
export function toNetworkError(reason: string, { provider, place, cause }: NetworkFailure): AgentError {
  if (reason === 'ERR_INVALID_CHAR') {
    return modelsError('auth', `The key or a header for ${provider} holds a character that cannot be sent.`);
  }
  const at = place === undefined ? '' : ` at ${place}`;
  const message = `${provider} cannot be reached${at}: ${toNetworkReason(reason)}.`;
  return modelsError('network', message, { data: { provider, reason }, ...(cause !== undefined && { cause }) });
}

export const toCut = (provider: string): AgentError =>
  modelsError('stream_cut', `${provider} closed the connection in the middle of its answer.`);

/** Reasons to end an answer that mean a fault of the host: DeepSeek's, GLM's, and those of servers that were stopped. */
const faults = new Map<string, Kind>([
  ['insufficient_system_resource', 'overloaded'],
  ['network_error', 'unavailable'],
  ['error', 'unavailable'],
  ['abort', 'stream_cut'],
  ['aborted', 'stream_cut'],
]);

/** The error that a finish reason of a provider stands for; undefined for one that ends an answer well. */
export const faultOf = (finish: string): Kind | undefined => faults.get(finish.toLowerCase());

interface Said {
  message: string;
  /** Codes and types in the provider's words, for `classify` only. */
  code: string;
  status?: number;
}

function readBody(body: unknown, depth = 0): Said {
  if (typeof body === 'string') return { message: body, code: '' };
  if (depth > MOST_NESTED) return { message: '', code: '' };
  if (Array.isArray(body)) return readBody(body[0], depth + 1);
  if (!isRecord(body)) return { message: '', code: '' };
  const inner = body.error || body.errors || body.detail;
  if (isRecord(inner) || Array.isArray(inner) || (typeof inner === 'string' && typeof body.message !== 'string')) {
    const said = readBody(inner, depth + 1);
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
  /(?<![\w.-])[\w.-]*\*{3,}[\w*.-]*/g,
];

/** Replaces the given secrets, whole or shortened, and whatever is shaped like a key. */
export function mask(text: string, secrets: readonly string[]): string {
  let masked = text;
  for (const secret of secrets) {
    if (secret.length < 6) continue;
    masked = masked.replaceAll(secret, '[masked]');
    if (secret.length < 16) continue;
    const [start, end] = [secret.slice(0, 8), secret.slice(-6)].map((part) => part.replace(/[^\w-]/g, '\\$&'));
    masked = masked.replace(new RegExp(`${start}[\\w*.-]*|(?<![\\w*.-])[\\w*.-]*${end}`, 'g'), '[masked]');
  }
  return keyShapes.reduce((result, shape) => result.replace(shape, '[masked]'), masked);
}

/** The host takes no such files at all. */
const kindRefused =
  /unknown variant .?image_url|image_url.{0,40}(only supported|not supported|unsupported)|(unsupported|invalid) content type.{0,30}(image|file)|not support (the )?(image|vision|pdf|file|multimodal)s?\b|support image input|\b(image|pdf|file|multimodal)s? (input|content)s?.{0,20}not supported|\bimages are not supported|not a (multimodal|vision) model|at most 0 image/;

/** It does not take this one: too large, broken, too many pages. */
const fileRefused =
  /\bimages? exceeds?\b|could not process (the )?(image|pdf|document|file)|(unsupported|invalid|corrupt\w*|malformed|broken) (base64.{0,5} )?(image|pdf)|\b(image|pdf)s?\b.{0,60}(too (large|big|small|many|long)|corrupt|damaged|encrypted|password|not (a )?valid|unsupported|exceed)|not represent a valid image|(unable|failed) to (process|decode|load|parse|read|open|download).{0,20}\b(image|pdf|document)|(maximum of|at most|more than|too many|limit of|exceeds?).{0,30}(pdf pages|images\b)|pdf.{0,40}pages?.{0,30}(limit|maximum|exceed)/;

/** A refusal of a kind of files, not of one of them. */
export const isKindRefusal = ({ code, message }: AgentError): boolean =>
  code === 'models.file_unsupported' &&
  (kindRefused.test(message.toLowerCase()) || /does not take such files/.test(message));

/** The first rule whose statuses and words fit. Statuses absent: any, also none. */
const rules: { kind: Kind; statuses: (number | undefined)[]; words: RegExp }[] = [
  {
    kind: 'quota',
    statuses: [400, 402, 403, 429, undefined],
    words: /insufficient.?(quota|balance|credit|funds)|current quota|arrear|billing|credit balance|payment.required/,
  },
  { kind: 'file_unsupported', statuses: [400, 404, 415, 422], words: kindRefused },
  { kind: 'file_unsupported', statuses: [400, 413, 415, 422], words: fileRefused },
  {
    kind: 'context_length',
    statuses: [400, 413, 422, undefined],
    words: /context.?length|context window|maximum context|prompt is too long|range of input length|input is too long/,
  },
  {
    kind: 'not_found',
    statuses: [400, 404, undefined],
    words: /model.?(is.)?not.?(found|exist)|model\b.{0,200}does not exist|no such model|unknown model|invalid.?model/,
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
  413: 'context_length',
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
