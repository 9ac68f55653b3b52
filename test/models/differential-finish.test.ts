// Why an answer ended: a host's word means the same through our own parser and through a package of the AI SDK.
import { describe, expect, it } from 'vitest';
import { createAiSdkModel } from '../../src/models/ai-sdk.ts';
import type { PackageName } from './streams/differences.ts';
import { headers, ourReading, packages, parse } from './streams/reading.ts';
import { calls, delta, stop, toBody } from './streams.ts';

const body = (reason: string) => toBody([delta({ content: 'a' }), delta({}, reason)]);

function throughPackage(name: PackageName, text: string) {
  const model = packages[name](() => Promise.resolve(new Response(text, { headers })));
  const request = { system: '', messages: [], tools: [] };
  const adapter = createAiSdkModel({ model, name: 'm', provider: 'host' });
  return ourReading(text, (on) => adapter.call(request, new AbortController().signal, on));
}

const whole = (reason: string) => ({ lines: ['text a', `${reason} 0 0 0 0`] });
const failed = (code: string) => ({ lines: ['text a', 'error'], code });

describe.each<[string, { lines: string[]; code?: string }]>([
  ['stop', whole('stop')],
  ['eos', whole('stop')],
  ['end_turn', whole('stop')],
  ['tool_calls', whole('stop')],
  ['length', whole('length')],
  ['MAX_TOKENS', whole('length')],
  ['content_filter', whole('content_filter')],
  ['sensitive', whole('content_filter')],
  ['insufficient_system_resource', failed('models.overloaded')],
  ['network_error', failed('models.unavailable')],
  ['error', failed('models.unavailable')],
  ['abort', failed('models.stream_cut')],
  ['vibes', failed('models.error')],
])('%s', (reason, expected) => {
  it('is the same for all', async () => {
    const text = body(reason);
    expect(await parse(text, [Buffer.from(text)])).toEqual(expected);
    expect(await throughPackage('compatible', text)).toEqual(expected);
    expect(await throughPackage('deepseek', text)).toEqual(expected);
  });
});

it('an unknown reason hands over no calls of ours, and the loop judges an empty answer', async () => {
  const odd = toBody([calls({ index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }), delta({}, 'vibes')]);
  const empty = toBody([delta({ role: 'assistant', content: '' }), stop]);
  for (const text of [odd, empty]) {
    const ours = await parse(text, [Buffer.from(text)]);
    expect(ours.lines).toEqual(text === odd ? ['error'] : ['stop 0 0 0 0']);
    for (const name of ['compatible', 'deepseek'] as const) expect(await throughPackage(name, text)).toEqual(ours);
  }
});
