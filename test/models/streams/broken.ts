// Bodies that no host should send, and some do.
import { calls, delta, stop, toBody } from '../streams.ts';
import type { HostStream } from './hosts.ts';

const event = (value: object | string) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const half = event(delta({ content: 'Hälf' }));
const end = event(stop);
const done = 'data: [DONE]\n\n';
const whole = `${half}${end}${done}`;
const said = ['text Hälf', 'stop 0 0 0 0'];
const cut = { reads: ['text Hälf', 'error'], code: 'models.stream_cut' };
const invalid = { reads: ['text Hälf', 'error'], code: 'models.stream_invalid' };
const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };

const framing: HostStream[] = [
  { name: 'a byte order mark', body: `\uFEFF${whole}`, reads: said },
  { name: 'CRLF', body: toBody([delta({ content: 'Hä' }), delta({ content: 'lf' }), stop], '\r\n\r\n'), reads: said },
  { name: 'CR only', body: whole.replaceAll('\n', '\r'), reads: said },
  { name: 'CRLF and LF, mixed', body: `${half.replaceAll('\n', '\r\n')}${end}\r\n${done}`, reads: said },
  { name: 'no blank after data:', body: whole.replaceAll('data: ', 'data:'), reads: said },
  { name: 'two blanks after data:', body: whole.replaceAll('data: ', 'data:  '), reads: said },
  {
    name: 'event, id and retry lines',
    body: whole.replaceAll('data:', 'event: message\nid: 7\nretry: 9\ndata:'),
    reads: said,
  },
  {
    name: 'data on several lines',
    body: `${event(JSON.stringify(delta({ content: 'Hälf' }), null, 1).replaceAll('\n', '\ndata: '))}${end}${done}`,
    reads: said,
  },
  { name: 'one line end between the events', body: whole.replaceAll('\n\n', '\n'), reads: said },
  { name: 'no line end at the end', body: `${half}${end}`.trimEnd(), reads: said },
  { name: 'no [DONE]', body: `${half}${end}`, reads: said },
  { name: '[DONE] twice', body: `${whole}${done}`, reads: said },
  { name: 'text after [DONE]', body: `${whole}${event(delta({ content: ' more' }))}`, reads: said },
  { name: 'pings that are data', body: `${event('ping')}${event('')}${event('null')}${whole}`, reads: said },
  { name: 'an event without choices', body: `${event({ type: 'ping' })}${whole}`, reads: said },
  {
    name: 'error: null in each chunk',
    body: toBody([{ ...delta({ content: 'Hälf' }), error: null }, stop]),
    reads: said,
  },
  { name: 'each chunk in a list', body: `${event([delta({ content: 'Hälf' })])}${end}${done}`, reads: said },
];

const failing: HostStream[] = [
  { name: 'no reason to finish', body: `${half}${done}`, ...cut },
  { name: 'nothing at all', body: '', reads: ['error'], code: 'models.stream_cut' },
  { name: 'only comments', body: ': hello\n\n: hello\n\n', reads: ['error'], code: 'models.stream_cut' },
  { name: 'cut in the middle of JSON', body: `${half}data: {"choices":[{"index":0,"delta":{"cont`, ...cut },
  { name: 'cut in the middle of JSON, then goes on', body: `${half}data: {"choices":[{"de\n\n${end}`, ...invalid },
  {
    name: 'a web page',
    body: '<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>',
    reads: ['error'],
    code: 'models.stream_invalid',
  },
  { name: 'plain text', body: 'Internal Server Error\n', reads: ['error'], code: 'models.stream_cut' },
  {
    name: 'a JSON error body',
    body: '{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}',
    reads: ['error'],
    code: 'models.auth',
  },
  {
    name: 'an error event in plain words',
    body: `${half}event: error\ndata: upstream timed out\n\n${end}`,
    reads: ['text Hälf', 'error'],
    code: 'models.unavailable',
  },
  {
    name: 'an error event that is a text',
    body: `${half}event: error\ndata: "Rate limit reached"\n\n${end}`,
    reads: ['text Hälf', 'error'],
    code: 'models.rate_limited',
  },
  {
    name: 'an error event that is an object',
    body: `${half}event: error\ndata: {"code":"Throttling","message":"slow down"}\n\n${end}`,
    reads: ['text Hälf', 'error'],
    code: 'models.rate_limited',
  },
  {
    name: 'an error after the reason to finish',
    body: `${half}${end}${event({ error: { message: 'Service unavailable' } })}`,
    reads: ['text Hälf', 'error'],
    code: 'models.overloaded',
  },
  {
    name: 'a reason to finish that nobody knows',
    body: `${half}${event(delta({}, 'vibes'))}`,
    reads: ['text Hälf', 'error'],
    code: 'models.error',
  },
];

const fields: HostStream[] = [
  {
    name: 'a JSON body that is a whole answer',
    body: JSON.stringify({ choices: [{ message: { content: 'Hälf' }, finish_reason: 'stop' }] }, null, 1),
    reads: said,
  },
  { name: 'two finish chunks', body: toBody([delta({ content: 'Hälf' }), delta({}, 'length'), stop]), reads: said },
  {
    name: 'content after the finish',
    body: toBody([delta({ content: 'Hä' }), stop, delta({ content: 'lf' })]),
    reads: said,
  },
  {
    name: 'usage before the finish',
    body: toBody([delta({ content: 'Hälf' }), { choices: [], usage }, stop]),
    reads: ['text Hälf', 'stop 5 2 0 0'],
  },
  {
    name: 'NUL characters',
    body: toBody([delta({ content: 'a\u0000b' }), stop]),
    reads: ['text a\u0000b', 'stop 0 0 0 0'],
  },
  {
    name: 'half a character, escaped',
    body: toBody(['{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}', stop]),
    reads: ['text a\uFFFD', 'stop 0 0 0 0'],
  },
  {
    name: 'one delta of a megabyte',
    body: toBody([delta({ content: '长'.repeat(350_000) }), stop]),
    reads: [`text ${'长'.repeat(350_000)}`, 'stop 0 0 0 0'],
  },
  {
    name: 'two answers side by side (n = 2)',
    body: toBody(
      ['Hä', 'lf']
        .flatMap((content) =>
          [content, 'other'].map((content, index) => ({ choices: [{ index, delta: { content } }] })),
        )
        .concat([{ choices: [{ index: 1, delta: {}, finish_reason: 'length' }] }, stop] as never[]),
    ),
    reads: said,
  },
  {
    name: 'content as a number',
    body: toBody([delta({ content: 'a' }), delta({ content: 42 }), stop]),
    reads: ['text a42', 'stop 0 0 0 0'],
  },
  {
    name: 'content as one object',
    body: toBody([delta({ content: { type: 'text', text: 'Hälf' } }), stop]),
    reads: said,
  },
  {
    name: 'a refusal that is no text',
    body: toBody([delta({ content: 'Hä', refusal: false }), delta({ content: 'lf', refusal: 0 }), stop]),
    reads: said,
  },
  {
    name: 'a delta that is null',
    body: toBody([{ choices: [{ index: 0, delta: null }] }, delta({ content: 'Hälf' }), stop]),
    reads: said,
  },
  { name: 'the role of a tool', body: toBody([delta({ role: 'tool', content: 'Hälf' }), stop]), reads: said },
  { name: 'an empty role', body: toBody([delta({ role: '', content: 'Hälf' }), stop]), reads: said },
  {
    name: 'usage that counts nothing at the end',
    body: toBody([
      delta({ content: 'Hälf' }),
      { ...stop, usage },
      { choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } },
    ]),
    reads: ['text Hälf', 'stop 5 2 0 0'],
  },
];

const call = (id: string | undefined, name: string, args: unknown, index = 0) => ({
  index,
  ...(id !== undefined && { id }),
  type: 'function',
  function: { name, arguments: args },
});

const brokenCalls: HostStream[] = [
  {
    name: 'duplicate ids',
    body: toBody([calls(call('x', 'time', '{}')), calls(call('x', 'dice', '{}', 1)), stop]),
    reads: ['call x time {}', 'call ? dice {}', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'missing ids',
    body: toBody([calls(call(undefined, 'time', '{}')), calls(call('', 'dice', '{}', 1)), stop]),
    reads: ['call ? time {}', 'call ? dice {}', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'arguments as an object',
    body: toBody([calls(call('x', 'time', { zone: 'Zürich' })), stop]),
    reads: ['call x time {"zone":"Zürich"}', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'arguments with garbage behind',
    body: toBody([
      calls(call('x', 'time', '{"z":1}')),
      calls({ index: 0, function: { arguments: '}</tool_call>' } }),
      stop,
    ]),
    reads: ['call x time {"z":1}}</tool_call>', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'a second object behind the arguments',
    body: toBody([calls(call('x', 'time', '{"z":1}')), calls({ index: 0, function: { arguments: '{"z":2}' } }), stop]),
    reads: ['call x time {"z":1}{"z":2}', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'the arguments again at the end, written otherwise',
    body: toBody([
      calls(call('x', 'time', '{"z":')),
      calls({ index: 0, function: { arguments: '1}' } }),
      calls(call('x', 'time', '{"z": 1}')),
      stop,
    ]),
    reads: ['call x time {"z":1}', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'arguments that are cut',
    body: toBody([calls(call('x', 'time', '{"zone": "Zü')), delta({}, 'length')]),
    reads: ['call x time {"zone": "Zü', 'length 0 0 0 0'],
  },
  {
    name: 'a call, then text, then a finish',
    body: toBody([calls(call('x', 'time', '')), delta({ content: 'ok' }), stop]),
    reads: ['text ok', 'call x time ', 'tool_calls 0 0 0 0'],
  },
  {
    name: 'numbers that begin at 1',
    body: toBody([
      calls(call('x', 'time', '{', 1)),
      calls({ index: 1, function: { arguments: '}' } }),
      delta({}, 'tool_calls'),
    ]),
    reads: ['call x time {}', 'tool_calls 0 0 0 0'],
  },
];

export const brokenStreams = [...framing, ...failing, ...fields, ...brokenCalls];
