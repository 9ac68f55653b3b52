import { defineErrors } from '../kernel/index.ts';

export const transcriptError = defineErrors('transcript', {
  invalid: {
    status: 500,
    hint: 'Correct the file and put it back into its folder before the next start: it is read there.',
  },
});
