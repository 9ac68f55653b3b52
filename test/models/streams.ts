// Small streams in the shapes that hosts send, with the parts that they mean. Each event is a chunk or its text.
import type { ModelFinish, ModelPart } from '../../src/kernel/model.ts';

export interface Sample {
  name: string;
  events: (object | string)[];
  parts: ModelPart[];
  finish: Pick<ModelFinish, 'reason'> & Partial<ModelFinish>;
}

export const delta = (delta: object, finish_reason: string | null = null) => ({
  id: 'c1',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason }],
});
export const calls = (...tool_calls: object[]) => delta({ tool_calls });
export const stop = delta({}, 'stop');
export const text = (text: string): ModelPart => ({ type: 'text', text });
export const reasoning = (text: string): ModelPart => ({ type: 'reasoning', text });
export const call = (id: string, name: string, args: string): ModelPart => ({ type: 'tool_call', id, name, args });

const usage = (inputTokens: number, outputTokens: number, reasoningTokens = 0, cachedTokens = 0) => ({
  inputTokens,
  outputTokens,
  reasoningTokens,
  cachedTokens,
});

export const plainSamples: Sample[] = [
  {
    name: 'text with usage in a last chunk without choices',
    events: [
      { ...delta({ role: 'assistant', content: '' }), model: 'gpt-x' },
      delta({ content: 'Hello' }),
      delta({ content: ' wörld ' }),
      delta({ content: '你好🦞' }),
      stop,
      {
        choices: [],
        usage: {
          prompt_tokens: 16,
          completion_tokens: 30,
          total_tokens: 46,
          prompt_tokens_details: { cached_tokens: 8 },
          completion_tokens_details: { reasoning_tokens: 4 },
        },
      },
    ],
    parts: [text('Hello'), text(' wörld '), text('你好🦞')],
    finish: { reason: 'stop', model: 'gpt-x', usage: usage(16, 30, 4, 8) },
  },
  {
    name: 'DeepSeek: reasoning_content, usage beside the finish, cache hits in its own field',
    events: [
      delta({ role: 'assistant', content: null, reasoning_content: '' }),
      delta({ content: null, reasoning_content: 'We need' }),
      delta({ content: 'Yes', reasoning_content: null }),
      { ...stop, usage: { prompt_tokens: 18, completion_tokens: 9, prompt_cache_hit_tokens: 12 } },
    ],
    parts: [reasoning('We need'), text('Yes')],
    finish: { reason: 'stop', usage: usage(18, 9, 0, 12) },
  },
  {
    name: 'Groq: reasoning, usage under x_groq',
    events: [
      delta({ reasoning: 'Okay' }),
      delta({ content: 'A' }),
      { ...stop, x_groq: { usage: { prompt_tokens: 3, completion_tokens: 4 } } },
    ],
    parts: [reasoning('Okay'), text('A')],
    finish: { reason: 'stop', usage: usage(3, 4) },
  },
  {
    name: 'both spellings of reasoning in one delta hold the same',
    events: [delta({ reasoning: 'Hm', reasoning_content: 'Hm' }), delta({ content: 'B' }), stop],
    parts: [reasoning('Hm'), text('B')],
    finish: { reason: 'stop' },
  },
  {
    name: 'Mistral: content as an array of thinking and text',
    events: [
      delta({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'The user' }] }] }),
      delta({ content: [{ type: 'thinking', thinking: 'asks' }] }),
      delta({
        content: [
          { type: 'text', text: '4' },
          { type: 'reference', ids: [1] },
        ],
      }),
      stop,
    ],
    parts: [reasoning('The user'), reasoning('asks'), text('4')],
    finish: { reason: 'stop' },
  },
  {
    name: 'xAI: no finish_reason key, reasoning tokens counted beside the completion',
    events: [
      { choices: [{ index: 0, delta: { reasoning_content: 'First' } }] },
      { choices: [{ index: 0, delta: { content: 'Hi' } }] },
      stop,
      {
        choices: [],
        usage: {
          prompt_tokens: 12,
          completion_tokens: 2,
          total_tokens: 354,
          completion_tokens_details: { reasoning_tokens: 340 },
        },
      },
    ],
    parts: [reasoning('First'), text('Hi')],
    finish: { reason: 'stop', usage: usage(12, 342, 340) },
  },
  {
    name: 'Perplexity: growing usage in each chunk, message beside delta',
    events: ['A', 'B', ''].map((content, i) => ({
      choices: [{ index: 0, delta: { content }, message: { content: 'AB' }, finish_reason: i === 2 ? 'stop' : null }],
      usage: { prompt_tokens: 5, completion_tokens: i + 1 },
    })),
    parts: [text('A'), text('B')],
    finish: { reason: 'stop', usage: usage(5, 3) },
  },
  {
    name: 'Kimi: usage inside the choice, cached_tokens at its top',
    events: [
      delta({ content: 'k' }),
      {
        choices: [
          {
            index: 0,
            delta: {},
            finish_reason: 'stop',
            usage: { prompt_tokens: 7, completion_tokens: 1, cached_tokens: 6 },
          },
        ],
      },
    ],
    parts: [text('k')],
    finish: { reason: 'stop', usage: usage(7, 1, 0, 6) },
  },
  {
    name: 'usage in the spelling of the responses API, then a chunk that counts nothing',
    events: [
      delta({ content: 'r' }),
      {
        ...stop,
        usage: {
          input_tokens: 9,
          output_tokens: 8,
          input_tokens_details: { cached_tokens: 2 },
          output_tokens_details: { reasoning_tokens: 3 },
        },
      },
      { choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } },
    ],
    parts: [text('r')],
    finish: { reason: 'stop', usage: usage(9, 8, 3, 2) },
  },
  {
    name: 'Azure: a first chunk without choices',
    events: [{ choices: [], prompt_filter_results: [{ prompt_index: 0 }], model: '' }, delta({ content: 'az' }), stop],
    parts: [text('az')],
    finish: { reason: 'stop', usage: usage(0, 0) },
  },
  {
    name: 'G4: only reasoning',
    events: [delta({ reasoning_content: 'think' }), delta({ reasoning_content: ' more' }), stop],
    parts: [reasoning('think'), reasoning(' more')],
    finish: { reason: 'stop' },
  },
  { name: 'nothing but a finish', events: [stop], parts: [], finish: { reason: 'stop' } },
  {
    name: 'a refusal is said as text',
    events: [delta({ content: null, refusal: 'No.' }), stop],
    parts: [text('No.')],
    finish: { reason: 'stop' },
  },
  {
    name: 'a second choice is not ours',
    events: [
      {
        choices: [
          { index: 0, delta: { content: 'one' } },
          { index: 1, delta: { content: 'two' } },
        ],
      },
      stop,
    ],
    parts: [text('one')],
    finish: { reason: 'stop' },
  },
  {
    name: 'a character cut in two between chunks',
    events: [
      '{"choices":[{"index":0,"delta":{"content":"a\\ud83e"}}]}',
      '{"choices":[{"index":0,"delta":{"content":"\\udd9eb"}}]}',
      stop,
    ],
    parts: [text('a'), text('🦞b')],
    finish: { reason: 'stop' },
  },
  {
    name: 'half a character that never becomes whole',
    events: ['{"choices":[{"index":0,"delta":{"content":"a\\ud83e"}}]}', delta({ reasoning: 'r' }), stop],
    parts: [text('a'), text('\uFFFD'), reasoning('r')],
    finish: { reason: 'stop' },
  },
];

/** A body as hosts write it. */
export function toBody(events: readonly (object | string)[], end = '\n\n'): string {
  return [...events.map((event) => (typeof event === 'string' ? event : JSON.stringify(event))), '[DONE]']
    .map((event) => `data: ${event}${end}`)
    .join('');
}
