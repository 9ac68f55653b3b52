import { randomInt } from 'node:crypto';
import * as z from 'zod';
import { defineTool } from '../kernel/index.ts';

export const rollDice = defineTool({
  name: 'roll_dice',
  title: 'Roll dice',
  icon: 'dice',
  description: 'Rolls fair dice and tells each result and their sum.',
  parameters: z.object({
    sides: z.int().min(2).max(1000).default(6),
    count: z.int().min(1).max(100).default(1),
  }),
  effect: 'read',
  run({ sides, count }) {
    const rolls = Array.from({ length: count }, () => randomInt(1, sides + 1));
    return { rolls, sum: rolls.reduce((sum, roll) => sum + roll, 0) };
  },
});
