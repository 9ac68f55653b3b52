// Models without a provider: one that plays a script, for tests and examples, and the demo of a start without any key.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Json, Message, Usage } from '../kernel/messages.ts';
import { textOf } from '../kernel/messages.ts';
import type { FinishReason, Model, ModelFinish, ModelPart, ModelRequest } from '../kernel/model.ts';
import { modelsError } from './errors.ts';

export interface ScriptedCall {
  name: string;
  /** Text is sent as it is, so that it may be broken JSON. Default `{}`. */
  args?: Json;
  id?: string;
}

/** One answer, in the order: reasoning, text, calls; or the error in its place, after what was streamed. */
export interface ScriptedAnswer {
  reasoning?: string;
  text?: string;
  calls?: ScriptedCall[];
  reason?: FinishReason;
  usage?: Partial<Usage>;
  /** Milliseconds before the first part. */
  delayMs?: number;
  /** Thrown after the parts above. */
  error?: Error;
}

/** Answers in order, one a call, or a function of the request; `turn` counts the model's calls from 0. */
export type Script =
  | readonly (string | ScriptedAnswer)[]
  | ((request: ModelRequest, turn: number) => string | ScriptedAnswer | Promise<string | ScriptedAnswer>);

export interface ScriptedConfig {
  name?: string;
  /** Milliseconds between two words. Default 0. */
  paceMs?: number;
}

export interface ScriptedModel extends Model {
  /** What was asked, in order. */
  readonly requests: readonly ModelRequest[];
}

/** A model that plays a script. A list that has ended is an error, `models.error`. */
export function createScriptedModel(script: Script, config: ScriptedConfig = {}): ScriptedModel {
  const { name = 'scripted', paceMs = 0 } = config;
  const requests: ModelRequest[] = [];
  return {
    name,
    requests,
    async call(request, signal, on) {
      signal.throwIfAborted();
      const turn = requests.push(request) - 1;
      const answer = typeof script === 'function' ? await script(request, turn) : script[turn];
      if (answer === undefined) throw modelsError('error', `The script of ${name} has no answer ${turn + 1}.`);
      const whole = typeof answer === 'string' ? { text: answer } : answer;
      const finish = await play(whole, { paceMs, signal, on });
      return { ...finish, model: name };
    },
  };
}

interface Stage {
  paceMs: number;
  signal: AbortSignal;
  on: (part: ModelPart) => void;
}

async function play(answer: ScriptedAnswer, { paceMs, signal, on }: Stage): Promise<ModelFinish> {
  const { reasoning = '', text = '', calls = [], delayMs = 0, error } = answer;
  const thoughts = words(reasoning);
  const said = words(text);
  await pause(delayMs, signal);
  for (const [type, list] of [['reasoning', thoughts] as const, ['text', said] as const]) {
    for (const word of list) {
      await pause(paceMs, signal);
      on({ type, text: word });
    }
  }
  signal.throwIfAborted();
  if (error) throw error;
  for (const [index, { name, args = {}, id = `call_${index}` }] of calls.entries()) {
    on({ type: 'tool_call', id, name, args: typeof args === 'string' ? args : JSON.stringify(args) });
  }
  const usage = {
    inputTokens: 0,
    outputTokens: thoughts.length + said.length,
    reasoningTokens: thoughts.length,
    cachedTokens: 0,
    ...answer.usage,
  };
  return { reason: answer.reason ?? (calls.length ? 'tool_calls' : 'stop'), usage };
}

/** Rejects with the signal's own reason; without a pace nothing is awaited but the caller's `await`. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (ms <= 0) return;
  await sleep(ms, undefined, { signal }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error;
  });
}

/** Words with the blanks before them; Han characters one by one, as models write them. */
const words = (text: string): string[] => text.match(/\s*(?:\p{Script=Han}|[^\s\p{Script=Han}]+)|\s+$/gu) ?? [];

export interface DemoConfig {
  /** Milliseconds between two words. Default 15. */
  paceMs?: number;
}

/**
 * The model of a start without any key. It says what it is and how to get a real one, calls `current_time` and
 * `roll_dice` where they are offered, or runs what follows "$ " as a command, and answers with their results; in Chinese
 * where the user writes Chinese.
 */
export function createDemoModel({ paceMs = 15 }: DemoConfig = {}): Model {
  return {
    name: 'demo',
    async call(request, signal, on) {
      const finish = await play(demoAnswer(request), { paceMs, signal, on });
      return { ...finish, model: 'demo' };
    },
  };
}

type ToolMessage = Extract<Message, { role: 'tool' }>;

function demoAnswer({ messages, tools }: ModelRequest): ScriptedAnswer {
  const at = messages.findLastIndex((message) => message.role === 'user');
  const asked = messages.filter((message) => message.role === 'user').map(({ parts }) => textOf(parts));
  const text = asked.at(-1) ?? '';
  const words = /\p{Script=Han}/u.test(text) ? chinese : english;
  const results = messages.slice(at + 1).filter((message): message is ToolMessage => message.role === 'tool');
  const now = quote(text);
  const before = asked.length > 1 ? quote(asked.at(-2) ?? '') : undefined;
  if (results.length) {
    const lines = results.map((result) => `- ${words.tools[result.name] ?? result.name}: ${resultText(result, words)}`);
    const hint = tools.some(({ name }) => name === 'Bash') ? [words.command] : [];
    return { text: [words.echo(now, before), words.results, ...lines, '', ...hint, words.setUp].join('\n') };
  }
  const calls = demoCalls(text).filter(({ name }) => tools.some((tool) => tool.name === name));
  const reasoning = words.think(now, calls.length);
  if (calls.length) return { reasoning, calls };
  return { reasoning, text: `${words.echo(now, before)}\n${words.setUp}` };
}

/** What a person asks for by "$ "; else dice as people write them, "3d20"; else two of the usual kind. */
function demoCalls(text: string): ScriptedCall[] {
  const command = /^\s*\$ (.+)$/s.exec(text)?.[1];
  if (command !== undefined) return [{ name: 'Bash', args: { command } }];
  const [, count = '2', sides = '6'] = /\b([1-9])?d(100|[1-9]\d?)\b/i.exec(text) ?? [];
  const isPlain = !/\p{Script=Han}/u.test(text);
  return [
    { name: 'current_time', args: isPlain ? {} : { zone: 'Asia/Shanghai' } },
    { name: 'roll_dice', args: { sides: Number(sides), count: Number(count) } },
  ];
}

function quote(text: string): string {
  const line = Array.from(text.replace(/\s+/g, ' ').trim());
  return line.length > 60 ? `${line.slice(0, 60).join('')}…` : line.join('');
}

function resultText({ result, isError }: ToolMessage, words: DemoWords): string {
  const text = flat(result);
  return isError ? `${words.failed}: ${text}` : text;
}

function flat(value: Json): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(flat).join(', ');
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return Object.entries(value)
    .map(([key, item]) => `${key} ${flat(item)}`)
    .join(', ');
}

interface DemoWords {
  think: (text: string, calls: number) => string;
  echo: (text: string, before: string | undefined) => string;
  results: string;
  failed: string;
  command: string;
  setUp: string;
  tools: Record<string, string | undefined>;
}

const english: DemoWords = {
  think: (text, calls) =>
    `The user wrote "${text}". I am the scripted demo model, so I cannot think about it for real. ` +
    (calls
      ? 'But the tools here are real: I call them, both at once, and show what they give back.'
      : 'No tool of the demo is offered here, so I only say what I am.'),
  echo: (text, before) =>
    `You wrote: "${text}".${before ? ` Before that: "${before}".` : ''} ` +
    'I am a **scripted demo**: no model is configured, so my words are fixed.',
  results: 'The conversation and the tools are real, though. They just ran on this server:\n',
  failed: 'it did not run',
  command: 'What follows `$ ` I run in the sandbox of this conversation: try `$ ls -la > list.txt; cat list.txt`.',
  setUp:
    'For a real model open the set-up of the page, or run `homard init`. Or set `OPENAI_API_KEY`, `DEEPSEEK_API_KEY` or ' +
    '`DASHSCOPE_API_KEY`, or `OPENAI_BASE_URL` for a local server, and start again.',
  tools: { current_time: 'The time', roll_dice: 'The dice', Bash: 'The command' },
};

const chinese: DemoWords = {
  think: (text, calls) =>
    `用户写道：“${text}”。我是脚本演示模型，并不会真正思考。` +
    (calls
      ? '不过这里的工具是真实的：我同时调用它们，再展示返回的结果。'
      : '这里没有提供演示用的工具，所以我只介绍自己。'),
  echo: (text, before) =>
    `你写的是：“${text}”。${before ? `在那之前：“${before}”。` : ''}我是**脚本演示模型**：还没有配置模型，所以我的话是固定的。`,
  results: '但对话和工具是真实的，它们刚刚在这台服务器上运行：\n',
  failed: '没有运行',
  command: '以 `$ ` 开头的内容，我会在本对话的沙箱里运行：试试 `$ ls -la > list.txt; cat list.txt`。',
  setUp:
    '要使用真正的模型，请在网页中打开“选择模型”，或运行 `homard init`。也可以设置 `OPENAI_API_KEY`、`DEEPSEEK_API_KEY` 或 ' +
    '`DASHSCOPE_API_KEY`，本地服务器则设置 `OPENAI_BASE_URL`，然后重新启动。',
  tools: { current_time: '时间', roll_dice: '骰子', Bash: '命令' },
};
