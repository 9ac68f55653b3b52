// As in hosts.ts, of servers that people run themselves.
import { calls, delta, toBody } from '../streams.ts';
import type { HostStream } from './hosts.ts';
import { args, counted, each, fn, pieces } from './hosts.ts';

export const serverStreams: HostStream[] = [
  {
    name: 'vLLM: role first, reasoning_content null, stop_reason, usage last',
    body: toBody([
      delta({ role: 'assistant', content: '' }),
      delta({ reasoning_content: 'Let me', content: null }),
      delta({ reasoning_content: null, content: 'naïve' }),
      {
        choices: [
          {
            index: 0,
            delta: { content: '', reasoning_content: null },
            logprobs: null,
            finish_reason: 'stop',
            stop_reason: 151645,
            token_ids: null,
          },
        ],
      },
      { ...counted(31, 6), prompt_token_ids: null },
    ]),
    reads: ['reasoning Let me', 'text naïve', 'stop 31 6 0 0'],
  },
  {
    name: 'vLLM, newer: reasoning, calls by token',
    body: toBody([
      delta({ role: 'assistant', content: '', reasoning: null }),
      delta({ reasoning: 'Look it up' }),
      calls({ index: 0, id: 'chatcmpl-tool-9f', type: 'function', function: { name: 'weather' } }),
      ...each(pieces, (piece) => calls({ index: 0, function: { arguments: piece } })),
      calls({ index: 1, id: 'chatcmpl-tool-8e', type: 'function', function: { name: 'time' } }),
      calls({ index: 1, function: { arguments: '{}' } }),
      { choices: [{ index: 0, delta: { content: '' }, finish_reason: 'tool_calls', stop_reason: null }] },
    ]),
    reads: [
      'reasoning Look it up',
      `call chatcmpl-tool-9f weather ${args}`,
      'call chatcmpl-tool-8e time {}',
      'tool_calls 0 0 0 0',
    ],
  },
  {
    name: 'vLLM: an error in the stream',
    body: `data: ${JSON.stringify(delta({ content: 'a' }))}\n\ndata: {"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","param":null,"code":500}}\n\ndata: [DONE]\n\n`,
    reads: ['text a', 'error'],
    code: 'models.unavailable',
  },
  {
    name: 'SGLang: usage null in each chunk, matched_stop, whole and split arguments',
    body: toBody([
      ...[
        delta({ role: 'assistant', content: '', reasoning_content: null, tool_calls: null }),
        delta({ role: null, content: 'Ok', reasoning_content: null, tool_calls: null }),
        calls({ id: 'call_s', index: 0, type: 'function', function: fn('weather', '') }),
        ...each(['{"city": "', '上海"}'], (piece) =>
          calls({ id: null, index: 0, type: 'function', function: { name: null, arguments: piece } }),
        ),
        calls({ id: 'call_t', index: 1, type: 'function', function: fn('time', '{}') }),
      ].map((chunk) => ({ ...chunk, usage: null })),
      {
        choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: 'tool_calls', matched_stop: null }],
        usage: null,
      },
      counted(8, 19, { reasoning_tokens: 0, prompt_tokens_details: null }),
    ]),
    reads: ['text Ok', `call call_s weather ${args}`, 'call call_t time {}', 'tool_calls 8 19 0 0'],
  },
  {
    name: 'llama.cpp: pings, timings, calls by character',
    body: `:\n\n${toBody([
      delta({ role: 'assistant', content: null }),
      delta({ reasoning_content: 'Mm' }),
      calls({ index: 0, id: 'fXh3', type: 'function', function: fn('weather', '') }),
      ...each(Array.from(args), (piece) => calls({ index: 0, function: { arguments: piece } })),
      { ...delta({}, 'tool_calls'), timings: { prompt_n: 1, predicted_ms: 12.5 } },
      { ...counted(5, 21), timings: { cache_n: 0, prompt_n: 5 } },
    ]).replaceAll('\n\n', '\n\n:\n\n')}`,
    reads: ['reasoning Mm', `call fXh3 weather ${args}`, 'tool_calls 5 21 0 0'],
  },
  {
    name: 'Ollama: all calls numbered 0 and whole, finish "stop", reasoning',
    body: toBody([
      delta({ role: 'assistant', content: '', reasoning: 'Two tools' }),
      delta({
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: 'call_o1', index: 0, type: 'function', function: fn('weather', '{"city":"Köln"}') },
          { id: 'call_o2', index: 0, type: 'function', function: fn('weather', '{"city":"Bonn"}') },
        ],
      }),
      delta({ role: 'assistant', content: '' }, 'stop'),
      counted(140, 33),
    ]),
    reads: [
      'reasoning Two tools',
      'call call_o1 weather {"city":"Köln"}',
      'call call_o2 weather {"city":"Bonn"}',
      'tool_calls 140 33 0 0',
    ],
  },
  {
    name: 'Ollama, older: whole calls without numbers',
    body: toBody([
      delta({ content: '', tool_calls: [{ id: 'call_p1', type: 'function', function: fn('time', '{"z":1}') }] }),
      delta({ content: '', tool_calls: [{ id: 'call_p2', type: 'function', function: fn('time', '{"z":2}') }] }),
      delta({ content: '' }, 'stop'),
    ]),
    reads: ['call call_p1 time {"z":1}', 'call call_p2 time {"z":2}', 'tool_calls 0 0 0 0'],
  },
];
