// Tool calls in the shapes that hosts send, also the odd ones.
import type { Sample } from './streams.ts';
import { call, calls, delta, stop, text } from './streams.ts';

const fn = (name: string | undefined, args: unknown) => ({
  ...(name !== undefined && { name }),
  ...(args !== undefined && { arguments: args }),
});
export const callSamples: Sample[] = [
  {
    name: 'two calls, arguments in pieces',
    events: [
      calls({ index: 0, id: 'a', type: 'function', function: fn('time', '') }),
      calls({ index: 0, function: fn(undefined, '{"zone":') }),
      calls({ index: 1, id: 'b', type: 'function', function: fn('dice', '{"si') }),
      calls({ index: 0, function: fn(undefined, '"UTC"}') }),
      calls({ index: 1, function: fn(undefined, 'des":6}') }),
      delta({}, 'tool_calls'),
    ],
    parts: [call('a', 'time', '{"zone":"UTC"}'), call('b', 'dice', '{"sides":6}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'text before calls, DashScope: empty ids in later pieces',
    events: [
      delta({ content: 'I look.' }),
      calls({ index: 0, id: 'call_1', function: fn('weather', '') }),
      calls({ index: 0, id: '', function: fn(undefined, '{"location": "San Francisco') }),
      calls({ index: 0, id: '', function: fn('', '"}') }),
      delta({}, 'tool_calls'),
    ],
    parts: [text('I look.'), call('call_1', 'weather', '{"location": "San Francisco"}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'Mistral: a whole call without index, finish in the same chunk',
    events: [delta({ tool_calls: [{ id: 'gSI', function: fn('weather', '{"a": 1}') }] }, 'tool_calls')],
    parts: [call('gSI', 'weather', '{"a": 1}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'finish "stop" with calls',
    events: [calls({ index: 0, id: 'a', function: fn('time', '{}') }), stop],
    parts: [call('a', 'time', '{}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'finish "tool_calls" without calls',
    events: [delta({ content: 'hi' }), delta({}, 'tool_calls')],
    parts: [text('hi')],
    finish: { reason: 'stop' },
  },
  {
    name: 'missing index: two whole calls in one chunk, without ids',
    events: [calls({ function: fn('time', '{}') }, { function: fn('time', '{}') }), stop],
    parts: [call('', 'time', '{}'), call('', 'time', '{}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'missing index: pieces follow by id, then by being last',
    events: [
      calls({ id: 'a', function: fn('time', '{"z":') }),
      calls({ id: 'a', function: fn(undefined, '1') }),
      calls({ function: fn(undefined, '}') }),
      calls({ id: 'b', function: fn('dice', '{}') }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":1}'), call('b', 'dice', '{}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'all calls numbered 0, told apart by id',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', '{}') }, { index: 0, id: 'b', function: fn('time', '{}') }),
      stop,
    ],
    parts: [call('a', 'time', '{}'), call('b', 'time', '{}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'all calls numbered 0, without ids',
    events: [
      calls({ index: 0, function: fn('time', '{"z":1}') }),
      calls({ index: 0, function: fn('dice', '{"s":6}') }),
      stop,
    ],
    parts: [call('', 'time', '{"z":1}'), call('', 'dice', '{"s":6}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'duplicate ids under different numbers are two calls',
    events: [
      calls({ index: 0, id: 'x', function: fn('time', '{}') }, { index: 1, id: 'x', function: fn('dice', '{}') }),
      stop,
    ],
    parts: [call('x', 'time', '{}'), call('x', 'dice', '{}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'a number is missing at first and there later',
    events: [
      calls({ id: 'a', function: fn('time', '') }),
      calls({ index: 0, function: fn(undefined, '{"z"') }),
      calls({ index: 0, function: fn(undefined, ':1}') }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":1}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'G7: a delta without the arguments key',
    events: [calls({ index: 0, id: 'a', function: fn('time', undefined) }), delta({}, 'tool_calls')],
    parts: [call('a', 'time', '')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'arguments null, then an object',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', null) }),
      calls({ index: 0, function: fn(undefined, { z: [1, { y: '你' }] }) }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":[1,{"y":"你"}]}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'the name in every piece',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', '{"z"') }),
      calls({ index: 0, id: 'a', function: fn('time', ':1}') }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":1}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'the name in two pieces',
    events: [
      calls({ index: 0, id: 'a', function: fn('current_', undefined) }),
      calls({ index: 0, function: fn('time', '') }),
      calls({ index: 0, function: fn(undefined, '{}') }),
      stop,
    ],
    parts: [call('a', 'current_time', '{}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'an empty object first, then the real arguments',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', '{}') }),
      calls({ index: 0, function: fn(undefined, '{"z":') }),
      calls({ index: 0, function: fn(undefined, '1}') }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":1}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'an empty object first, then all of it with id and name again',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', '{}') }),
      calls({ index: 0, id: 'a', function: fn('time', '{"z":1}') }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":1}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'the whole call again at the end',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', '{"z":') }),
      calls({ index: 0, function: fn(undefined, '{"y":1}}') }),
      calls({ index: 0, id: 'a', function: fn('time', '{"z":{"y":1}}') }),
      stop,
    ],
    parts: [call('a', 'time', '{"z":{"y":1}}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'the old function_call',
    events: [
      delta({ function_call: { name: 'time', arguments: '{"z"' } }),
      delta({ function_call: { arguments: ':1}' } }),
      delta({}, 'function_call'),
    ],
    parts: [call('', 'time', '{"z":1}')],
    finish: { reason: 'tool_calls' },
  },
  {
    name: 'broken and empty entries of tool_calls',
    events: [
      calls({ index: 0, id: 'a', function: fn('time', '{"cut') }, { index: 1 }),
      delta({ tool_calls: [null, 3] }),
      delta({}, 'length'),
    ],
    parts: [call('a', 'time', '{"cut')],
    finish: { reason: 'length' },
  },
];
