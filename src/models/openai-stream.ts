// The body of a chat-completions answer as model parts: event framing, then chunks. Pure: text in, parts out.
import type { Usage } from '../kernel/messages.ts';
import { noUsage } from '../kernel/messages.ts';
import type { ModelFinish, ModelPart } from '../kernel/model.ts';
import { modelsError, toProviderError } from './errors.ts';
import { toFinishReason } from './finish.ts';
import { isRecord, parseJson } from './json.ts';
import { createCallAssembly } from './openai-calls.ts';

export interface OpenAIStreamConfig {
  /** Named in errors. */
  provider: string;
  /** Never shown in errors, whatever the provider repeats. */
  secrets?: readonly string[];
  on: (part: ModelPart) => void;
}

export interface OpenAIStream {
  /**
   * Takes the next piece of the body, decoded; it may be cut anywhere. True when it brought something of the answer:
   * comments, pings and empty chunks do not count. Throws what the provider reports, as `models.*`.
   */
  push(text: string): boolean;
  /** The body ended: hands over the tool calls. Throws `models.stream_cut` when the answer is not complete. */
  end(): ModelFinish;
  /** The provider gave a reason why the answer ends; only its usage may still come. */
  readonly isFinished: boolean;
  /** The provider said that nothing more comes. */
  readonly isDone: boolean;
}

/** Characters of one line; a body without line ends is not a stream. */
const MAX_LINE = 16 * 1024 * 1024;

export function createOpenAIStream(config: OpenAIStreamConfig): OpenAIStream {
  const { provider } = config;
  const answer = createAnswer(config);
  let kind: 'events' | 'json' | undefined;
  let rest = '';
  /** Data of the open event that is not JSON by itself: its other lines follow. */
  let pending: string | undefined;
  let event = '';
  let isDone = false;

  function line(text: string): void {
    if (text.includes('\r')) {
      for (const part of text.split('\r')) line(part);
    } else if (text === '') {
      if (pending !== undefined) flush();
      event = '';
    } else if (text.startsWith('data:')) {
      data(text.slice(text.charCodeAt(5) === 32 ? 6 : 5));
    } else if (text.startsWith('event:')) {
      event = text.slice(6).trim();
    } else if (text.startsWith('{')) {
      // Proxies write an error of their own between the events, without "data:".
      data(text);
    }
  }

  function data(text: string): void {
    if (pending !== undefined) {
      pending += `\n${text}`;
      if (pending.length > MAX_LINE) throw tooLong();
    } else if (text.length < 16 && text.trim() === '[DONE]') {
      isDone = true;
    } else {
      const chunk = parseJson(text);
      if (chunk === undefined) pending = text;
      else answer.take(chunk, event);
    }
  }

  function flush(): void {
    // Hosts tell errors in plain words, too.
    const chunk = parseJson(pending!) ?? (event === 'error' ? pending : undefined);
    const isBroken = chunk === undefined && /^\s*[{[]/.test(pending!);
    pending = undefined;
    if (isBroken) throw modelsError('stream_invalid', `${provider} sent a part that is not JSON.`);
    if (chunk !== undefined) answer.take(chunk, event);
  }

  function lines(): void {
    let from = 0;
    for (;;) {
      const at = rest.indexOf('\n', from);
      if (at < 0) break;
      line(rest.slice(from, at > from && rest.charCodeAt(at - 1) === 13 ? at - 1 : at));
      from = at + 1;
      if (isDone) break;
    }
    if (from > 0) rest = rest.slice(from);
  }

  const tooLong = () => modelsError('stream_invalid', `${provider} sent a line without an end.`);

  return {
    get isFinished() {
      return answer.isFinished;
    },
    get isDone() {
      return isDone;
    },
    push(text) {
      if (isDone) return false;
      const before = answer.progress;
      rest += text;
      if (!kind) {
        rest = rest.replace(/^\uFEFF/, '');
        const first = /\S/.exec(rest)?.[0];
        if (!first) return false;
        if (first === '<') throw modelsError('stream_invalid', `${provider} answered with a web page.`);
        kind = first === '{' || first === '[' ? 'json' : 'events';
      }
      // A long line is looked at once, when its end comes.
      if (kind === 'events' && text.includes('\n')) lines();
      if (rest.length > MAX_LINE) throw tooLong();
      return answer.progress !== before;
    },
    end() {
      if (kind === 'json') {
        const body = parseJson(rest);
        if (body !== undefined) answer.take(body, 'body');
      } else if (!isDone && kind) {
        if (rest) line(rest.endsWith('\r') ? rest.slice(0, -1) : rest);
        // JSON that is cut here is an answer that is cut.
        if (pending !== undefined && (event === 'error' || parseJson(pending) !== undefined)) flush();
      }
      rest = '';
      return answer.end();
    },
  };
}

/** The meaning of the chunks, whatever framed them. `progress` grows with each chunk that brings something. */
function createAnswer({ provider, secrets, on }: OpenAIStreamConfig) {
  const calls = createCallAssembly();
  const writer = createWriter(on);
  let finish: string | undefined;
  let usage: Usage = noUsage;
  let model: string | undefined;
  let progress = 0;

  /**
   * Text, or Mistral's spelling: a list of `{type:'text', text}` and `{type:'thinking', thinking: a list or text}`.
   * A number is a token that a gateway took for one.
   */
  function write(type: 'text' | 'reasoning', value: unknown): void {
    if (typeof value === 'string') {
      if (value === '') return;
      progress++;
      writer.write(type, value);
    } else if (Array.isArray(value)) {
      for (const piece of value) write(type, piece);
    } else if (typeof value === 'number') {
      write(type, String(value));
    } else if (isRecord(value)) {
      if (value.type === 'thinking' || value.type === 'reasoning') write('reasoning', value.thinking ?? value.text);
      else if (value.type === 'text' || value.type === 'output_text') write(type, value.text);
    }
  }

  function takeChoice(choice: Record<string, unknown>, source: string): void {
    // Some gateways send the whole answer as one event; Perplexity repeats it beside each delta.
    const whole = source === 'body' || progress === 0 ? choice.message : undefined;
    const delta = source === 'body' ? (whole ?? choice.delta) : (choice.delta ?? whole);
    if (isRecord(delta)) {
      // Where a host writes both spellings they hold the same.
      write('reasoning', delta.reasoning_content || delta.reasoning);
      write('text', delta.content);
      if (typeof delta.refusal === 'string') write('text', delta.refusal);
      if (delta.tool_calls && calls.add(delta.tool_calls)) progress++;
      if (delta.function_call && calls.add(delta.function_call)) progress++;
    }
    if (isRecord(choice.usage)) usage = toUsage(choice.usage, usage);
    const said = choice.finish_reason;
    if (typeof said !== 'string' || said === '' || said === 'null') return;
    finish = said;
    progress++;
  }

  return {
    get progress() {
      return progress;
    },
    get isFinished() {
      return finish !== undefined;
    },
    /** `source` is the name of the event, or `body` for a body that is one JSON text. */
    take(value: unknown, source: string): void {
      const chunk: unknown = Array.isArray(value) ? value[0] : value;
      if (source === 'error' || (isRecord(chunk) && isFailure(chunk, source))) {
        throw toProviderError({ provider, body: chunk, ...(secrets && { secrets }) });
      }
      if (!isRecord(chunk)) return;
      if (typeof chunk.model === 'string' && chunk.model) model = chunk.model;
      if (isRecord(chunk.x_groq) && isRecord(chunk.x_groq.usage)) usage = toUsage(chunk.x_groq.usage, usage);
      if (isRecord(chunk.usage)) usage = toUsage(chunk.usage, usage);
      if (!Array.isArray(chunk.choices)) return;
      for (const choice of chunk.choices) {
        if (isRecord(choice) && !(typeof choice.index === 'number' && choice.index > 0)) takeChoice(choice, source);
      }
    },
    end(): ModelFinish {
      writer.flush();
      if (finish === undefined) {
        const what = progress ? 'ended its answer without saying that it is complete' : 'ended without an answer';
        throw modelsError('stream_cut', `${provider} ${what}.`);
      }
      let reason = toFinishReason(finish, { provider, ...(secrets && { secrets }) });
      const parts = calls.parts();
      for (const part of parts) on(part);
      if (reason === 'stop' || reason === 'tool_calls') reason = parts.length ? 'tool_calls' : 'stop';
      return { reason, usage, ...(model !== undefined && { model }) };
    },
  };
}

/** Hands text over; a character that a host cut in two (surrogates in two chunks) is kept until its other half comes. */
function createWriter(on: (part: ModelPart) => void) {
  let half = '';
  let halfType: 'text' | 'reasoning' = 'text';
  const emit = (type: 'text' | 'reasoning', text: string) => on({ type, text: text.toWellFormed() });
  const flush = () => {
    if (half) emit(halfType, half);
    half = '';
  };
  return {
    flush,
    write(type: 'text' | 'reasoning', text: string): void {
      if (half && type !== halfType) flush();
      const whole = half + text;
      const last = whole.charCodeAt(whole.length - 1);
      half = last >= 0xd800 && last <= 0xdbff ? whole.slice(-1) : '';
      halfType = type;
      if (half.length < whole.length) emit(type, half ? whole.slice(0, -1) : whole);
    },
  };
}

function isFailure(chunk: Record<string, unknown>, source: string): boolean {
  if (chunk.error || chunk.object === 'error') return true;
  if (Array.isArray(chunk.choices)) return false;
  return source === 'body' || (typeof chunk.message === 'string' && 'code' in chunk);
}

/** The last count wins, unless it counts nothing. */
function toUsage(raw: Record<string, unknown>, before: Usage): Usage {
  const input = isRecord(raw.prompt_tokens_details) ? raw.prompt_tokens_details : raw.input_tokens_details;
  const output = isRecord(raw.completion_tokens_details) ? raw.completion_tokens_details : raw.output_tokens_details;
  const cached = isRecord(input) ? input.cached_tokens : undefined;
  const reasoning = isRecord(output) ? output.reasoning_tokens : undefined;
  const usage = {
    inputTokens: toCount(raw.prompt_tokens, raw.input_tokens),
    outputTokens: toCount(raw.completion_tokens, raw.output_tokens),
    reasoningTokens: toCount(reasoning, raw.reasoning_tokens),
    cachedTokens: toCount(cached, raw.prompt_cache_hit_tokens, raw.cached_tokens, raw.cache_read_input_tokens),
  };
  if (!usage.inputTokens && !usage.outputTokens) return before;
  // xAI counts reasoning beside the completion; its total tells.
  const isBeside = toCount(raw.total_tokens) === usage.inputTokens + usage.outputTokens + usage.reasoningTokens;
  return isBeside ? { ...usage, outputTokens: usage.outputTokens + usage.reasoningTokens } : usage;
}

function toCount(...values: unknown[]): number {
  const found = values.find((value) => typeof value === 'number' && value > 0 && Number.isFinite(value));
  return typeof found === 'number' ? Math.round(found) : 0;
}
