import * as z from 'zod';
import type { Usage } from '../kernel/index.ts';

const usd = z.number().min(0);

export const pricesConfig = z
  .record(
    z.string(),
    z.strictObject({
      input: usd.describe('US dollars a million input tokens.'),
      cachedInput: usd.optional().describe("The same for those that came from the host's cache; as input when absent."),
      output: usd.describe('US dollars a million output tokens, reasoning included.'),
    }),
  )
  .describe('Prices by the beginning of a model name; the longest one that fits holds.');

export type PricesConfig = z.output<typeof pricesConfig>;

/** What a use of a model cost, in US dollars; null where the table has no price. */
export type PriceOf = (model: string, usage: Usage) => number | null;

export function createPriceTable(config: PricesConfig): PriceOf {
  const prices = Object.entries(config)
    .map(([prefix, price]) => ({ prefix: prefix.toLowerCase(), ...price }))
    .sort((a, b) => b.prefix.length - a.prefix.length);
  return (model, { inputTokens, cachedTokens, outputTokens }) => {
    const name = model.toLowerCase();
    const price = prices.find(({ prefix }) => name.startsWith(prefix));
    if (!price) return null;
    const { input, cachedInput = input, output } = price;
    return ((inputTokens - cachedTokens) * input + cachedTokens * cachedInput + outputTokens * output) / 1_000_000;
  };
}
