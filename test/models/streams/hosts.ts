// Answers in the wire shapes of hosts that nobody recorded, and what each of them says.
import { calls, delta, stop, toBody } from '../streams.ts';

export interface HostStream {
  name: string;
  body: string;
  /** In order, neighbours joined: `text ...`, `reasoning ...`, `call id name args`; the end with the four counts. */
  reads: string[];
  /** Of our error, where the end is `error`. */
  code?: string;
}

const usage = (prompt_tokens: number, completion_tokens: number, more: object = {}) => ({
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, ...more },
});
export const counted = (prompt: number, completion: number, more: object = {}) => ({
  choices: [],
  ...usage(prompt, completion, more),
});
export const fn = (name: string | undefined, args: string) => ({ ...(name && { name }), arguments: args });
/** `{"city": "上海"}` as tokens. */
export const pieces = ['{"', 'city', '": "', '上', '海', '"}'];
export const args = pieces.join('');
export const each = (parts: string[], make: (part: string) => object) => parts.map((part) => make(part));

const openai: HostStream[] = [
  {
    name: 'OpenAI: service tier, fingerprint, obfuscation, log probabilities',
    body: toBody(
      [
        delta({ role: 'assistant', content: '', refusal: null }),
        ...each(['Grüß', ' dich', ' 👋🏽'], (content) => ({
          ...delta({ content }),
          choices: [
            {
              index: 0,
              delta: { content },
              logprobs: { content: [{ token: content, logprob: -0.1, bytes: [71], top_logprobs: [] }], refusal: null },
              finish_reason: null,
            },
          ],
        })),
        stop,
        counted(9, 4, {
          prompt_tokens_details: { cached_tokens: 2, audio_tokens: 0 },
          completion_tokens_details: { reasoning_tokens: 1, accepted_prediction_tokens: 0 },
        }),
      ].map((chunk) => ({
        ...chunk,
        object: 'chat.completion.chunk',
        service_tier: 'default',
        system_fingerprint: 'fp_1',
        obfuscation: 'x9Kd',
      })),
    ),
    reads: ['text Grüß dich 👋🏽', 'stop 9 4 1 2'],
  },
  {
    name: 'OpenAI: parallel calls, the second one begins before the first one ends',
    body: toBody([
      delta({ role: 'assistant', content: null }),
      calls({ index: 0, id: 'call_A', type: 'function', function: fn('weather', '') }),
      ...each(pieces.slice(0, 3), (piece) => calls({ index: 0, function: { arguments: piece } })),
      calls({ index: 1, id: 'call_B', type: 'function', function: fn('weather', '') }),
      ...each(pieces, (piece) => calls({ index: 1, function: { arguments: piece } })),
      ...each(pieces.slice(3), (piece) => calls({ index: 0, function: { arguments: piece } })),
      delta({}, 'tool_calls'),
    ]),
    reads: [`call call_A weather ${args}`, `call call_B weather ${args}`, 'tool_calls 0 0 0 0'],
  },
  {
    name: 'OpenAI: refused in pieces',
    body: toBody([
      delta({ role: 'assistant', refusal: '' }),
      delta({ refusal: 'I can’t' }),
      delta({ refusal: '.' }),
      stop,
    ]),
    reads: ['text I can’t.', 'stop 0 0 0 0'],
  },
  {
    name: 'Azure: filter results first, beside each delta and after the end',
    body: toBody([
      { choices: [], model: '', object: '', id: '', created: 0, prompt_filter_results: [{ prompt_index: 0 }] },
      { choices: [{ index: 0, delta: { content: 'Blå' }, content_filter_results: { hate: { filtered: false } } }] },
      delta({}, 'content_filter'),
      { choices: [{ index: 0, finish_reason: null, content_filter_offsets: { start_offset: 4 } }] },
    ]),
    reads: ['text Blå', 'content_filter 0 0 0 0'],
  },
];

const chinese: HostStream[] = [
  {
    name: 'DeepSeek: keep-alive comments, reasoning, answer, cache hits',
    body: `: keep-alive\n\n: keep-alive\n\n${toBody([
      delta({ role: 'assistant', content: null, reasoning_content: '' }),
      delta({ content: null, reasoning_content: '用户' }),
      delta({ content: null, reasoning_content: '问好。' }),
      delta({ content: '你好！', reasoning_content: null }),
      {
        ...delta({ content: '', reasoning_content: null }, 'stop'),
        ...usage(30, 8, {
          prompt_cache_hit_tokens: 16,
          prompt_cache_miss_tokens: 14,
          prompt_tokens_details: { cached_tokens: 16 },
          completion_tokens_details: { reasoning_tokens: 5 },
        }),
      },
    ]).replaceAll('\n\n', '\n\n: keep-alive\n\n')}`,
    reads: ['reasoning 用户问好。', 'text 你好！', 'stop 30 8 5 16'],
  },
  {
    name: 'DeepSeek: out of resources in the middle',
    body: toBody([delta({ content: '我' }), delta({ content: '' }, 'insufficient_system_resource')]),
    reads: ['text 我', 'error'],
    code: 'models.overloaded',
  },
  {
    name: 'DeepSeek: reasoning between two calls and text after them',
    body: toBody([
      delta({ reasoning_content: '想' }),
      delta({ content: '查' }),
      calls({ index: 0, id: 'call_00_x', type: 'function', function: fn('weather', '') }),
      ...each(pieces, (piece) => calls({ index: 0, function: { arguments: piece } })),
      delta({ reasoning_content: '再想' }),
      calls({ index: 1, id: 'call_01_y', type: 'function', function: fn('time', '{}') }),
      delta({ content: '完' }),
      delta({}, 'tool_calls'),
    ]),
    reads: [
      'reasoning 想',
      'text 查',
      'reasoning 再想',
      'text 完',
      `call call_00_x weather ${args}`,
      'call call_01_y time {}',
      'tool_calls 0 0 0 0',
    ],
  },
  {
    name: 'Qwen: growing usage in each chunk, empty deltas, empty reasons, later ids empty, names null',
    body: toBody([
      { ...delta({ role: 'assistant', content: '' }, ''), ...usage(12, 0) },
      { ...delta({ content: '' }, ''), ...usage(12, 1) },
      {
        ...delta({ tool_calls: [{ index: 0, id: 'call_q', type: 'function', function: fn('weather', '') }] }, ''),
        ...usage(12, 2),
      },
      ...each(pieces, (piece) => ({
        ...delta({ tool_calls: [{ index: 0, id: '', function: { name: null, arguments: piece } }] }, ''),
        ...usage(12, 8),
      })),
      { ...delta({ content: '' }, 'tool_calls'), ...usage(12, 9) },
      { ...delta({ content: '' }, ''), ...usage(12, 9, { prompt_tokens_details: { cached_tokens: 4 } }) },
    ]),
    reads: [`call call_q weather ${args}`, 'tool_calls 12 9 0 4'],
  },
  {
    name: 'Qwen: "null" as the reason until the end',
    body: toBody([delta({ content: '好' }, 'null'), delta({ content: '的' }, 'null'), stop, delta({}, 'null')]),
    reads: ['text 好的', 'stop 0 0 0 0'],
  },
  {
    name: 'GLM: reasoning, whole calls with numbers, finish in the same chunk',
    body: toBody([
      delta({ role: 'assistant', reasoning_content: '需要' }),
      delta({ role: 'assistant', content: '我来查。' }),
      {
        ...delta(
          {
            role: 'assistant',
            tool_calls: [
              { id: 'call_-1', index: 0, type: 'function', function: fn('weather', args) },
              { id: 'call_-2', index: 1, type: 'function', function: fn('time', '{"zone":"UTC"}') },
            ],
          },
          'tool_calls',
        ),
        ...usage(170, 20, { prompt_tokens_details: { cached_tokens: 43 } }),
      },
    ]),
    reads: [
      'reasoning 需要',
      'text 我来查。',
      `call call_-1 weather ${args}`,
      'call call_-2 time {"zone":"UTC"}',
      'tool_calls 170 20 0 43',
    ],
  },
  {
    name: 'GLM: ended as sensitive',
    body: toBody([delta({ role: 'assistant', content: '这' }), delta({ role: 'assistant', content: '' }, 'sensitive')]),
    reads: ['text 这', 'content_filter 0 0 0 0'],
  },
  {
    name: 'GLM: an error of its network',
    body: toBody([delta({ content: '这' }), delta({ content: '' }, 'network_error')]),
    reads: ['text 这', 'error'],
    code: 'models.unavailable',
  },
  {
    name: 'Doubao: role null, fields of its own, usage last',
    body: toBody([
      ...[
        delta({ role: 'assistant', content: '', reasoning_content: '嗯' }),
        delta({ role: null, content: '', reasoning_content: '，' }),
        delta({ role: null, content: '您好' }),
        delta({ role: null, content: '' }, 'stop'),
      ].map((chunk) => ({ ...chunk, 'x-request-id': '02', service_tier: 'default', usage: null })),
      counted(22, 7, {
        prompt_tokens_details: { cached_tokens: 0, provisioned_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 3, provisioned_tokens: 0 },
      }),
    ]),
    reads: ['reasoning 嗯，', 'text 您好', 'stop 22 7 3 0'],
  },
];

const gateways: HostStream[] = [
  {
    name: 'OpenRouter: comments, reasoning with details, native reasons',
    body: `: OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n${toBody([
      delta({
        role: 'assistant',
        content: '',
        reasoning: 'Thin',
        reasoning_details: [{ type: 'reasoning.text', text: 'Thin' }],
      }),
      delta({
        role: 'assistant',
        content: '',
        reasoning: 'king',
        reasoning_details: [{ type: 'reasoning.text', text: 'king' }],
      }),
      delta({ role: 'assistant', content: 'Done', reasoning: null, reasoning_details: [] }),
      {
        choices: [
          { index: 0, delta: { role: 'assistant', content: '' }, finish_reason: 'stop', native_finish_reason: 'STOP' },
        ],
      },
      {
        choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
        ...usage(7, 5, { cost: 0.1 }),
      },
    ])}`,
    reads: ['reasoning Thinking', 'text Done', 'stop 7 5 0 0'],
  },
  {
    name: 'OpenRouter: an error beside the choice that ends with it',
    body: toBody([
      delta({ content: 'Half' }),
      { ...delta({ content: '' }, 'error'), error: { code: 429, message: 'Provider returned error' } },
    ]),
    reads: ['text Half', 'error'],
    code: 'models.rate_limited',
  },
  {
    name: 'Gemini: calls without numbers, thought signatures',
    body: toBody([
      delta({
        role: 'assistant',
        tool_calls: [
          {
            extra_content: { google: { thought_signature: 'CqEB' } },
            function: fn('weather', '{"city":"Łódź"}'),
            id: 'function-call-1',
            type: 'function',
          },
        ],
      }),
      delta({
        role: 'assistant',
        tool_calls: [{ function: fn('weather', '{"city":"Ærø"}'), id: 'function-call-2', type: 'function' }],
      }),
      { ...delta({ role: 'assistant' }, 'tool_calls'), ...usage(61, 30) },
    ]),
    reads: [
      'call function-call-1 weather {"city":"Łódź"}',
      'call function-call-2 weather {"city":"Ærø"}',
      'tool_calls 61 30 0 0',
    ],
  },
  {
    name: 'a gateway that makes up a new id for each piece',
    body: toBody([
      calls({ index: 0, id: 'r1', function: fn('weather', pieces[0]!) }),
      ...each(pieces.slice(1), (piece) => calls({ index: 0, id: `r-${piece}`, function: fn('weather', piece) })),
      delta({}, 'tool_calls'),
    ]),
    reads: [`call r1 weather ${args}`, 'tool_calls 0 0 0 0'],
  },
  {
    name: 'a gateway that sends the whole answer as one event',
    body: toBody([
      {
        object: 'chat.completion',
        choices: [{ index: 0, message: { role: 'assistant', content: 'Çok iyi' }, finish_reason: 'stop' }],
        ...usage(3, 2),
      },
    ]),
    reads: ['text Çok iyi', 'stop 3 2 0 0'],
  },
];

export const hostStreams = [...openai, ...chinese, ...gateways];
