import { describe, expect, it } from 'vitest';
import { faultOf, mask, toNetworkError, toProviderError } from '../../src/models/errors.ts';
import { toFinishReason } from '../../src/models/finish.ts';

describe('what a foreign host says', () => {
  it.each<[string, string]>([
    ['models', 'model '.repeat(40_000)],
    ['unsupported content', 'invalid content type'.repeat(10_000)],
    ['words', 'a'.repeat(200_000)],
    ['keys', `${'x-'.repeat(100_000)}***`],
  ])('is read in time that grows with its length only: %s', (_, message) => {
    const begun = performance.now();
    for (const status of [400, undefined]) {
      for (const body of [{ error: { message, code: message, type: message } }, message]) {
        toProviderError({ provider: 'h', body, ...(status && { status }) });
      }
    }
    mask(message, ['a-secret-0123456789-secret']);
    expect(performance.now() - begun).toBeLessThan(300);
  });

  it('is still sorted by its first words', () => {
    const message = `The model m-1 in your project does not exist. ${'x'.repeat(5000)}`;
    expect(toProviderError({ provider: 'h', status: 400, body: { error: { message } } }).code).toBe('models.not_found');
  });

  it('may be nested without end', () => {
    const body: unknown = JSON.parse(`${'{"error":'.repeat(50_000)}{}${'}'.repeat(50_000)}`);
    expect(toProviderError({ provider: 'h', status: 400, body }).code).toBe('models.bad_request');
  });

  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])('%s is a word like any other', (word) => {
    expect(faultOf(word)).toBeUndefined();
    expect(() => toFinishReason(word, { provider: 'h' })).toThrow(expect.objectContaining({ code: 'models.error' }));
    expect(toNetworkError(word, { provider: 'h' }).message).toBe(`h cannot be reached: ${word}.`);
  });
});
