import { defineErrors } from '../kernel/index.ts';

export const agentsError = defineErrors('agents', {
  unknown: { status: 400, hint: 'Leave "agent" out for the default one, or name one that exists.' },
});
