import { defineErrors } from '../kernel/index.ts';

export const agentsError = defineErrors('agents', {
  invalid_output: { status: 400, hint: 'Send a JSON Schema (draft 2020-12) of the answer you want.' },
  output_too_large: { status: 400, hint: 'Send a smaller schema, or ask for the answer in parts.' },
  unknown: { status: 400, hint: 'Leave "agent" out for the default one, or name one that exists.' },
});
