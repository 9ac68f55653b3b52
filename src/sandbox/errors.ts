import { defineErrors } from '../kernel/index.ts';

export const sandboxError = defineErrors('sandbox', {
  unavailable: {
    status: 500,
    hint: 'Run "homard doctor": it tells what each kind of sandbox needs. Choose another one in sandbox.kind.',
  },
  refused: { status: 500, hint: 'Choose an isolated kind in sandbox.kind, or set what the message names.' },
  failed: { status: 503, hint: 'Try again. Where it stays, run "homard doctor".', retryable: true },
  closed: { status: 409, hint: 'The run has ended; send a new message.' },
  invalid_command: { status: 400, hint: 'Correct the command or the folder.' },
  path_refused: { status: 400, hint: 'Use a path below /workspace that leads through no link.' },
  file_not_found: { status: 404, hint: 'List the folder to see what is there.' },
  not_a_file: { status: 400, hint: 'Name a file, not a folder.' },
  file_too_large: { status: 413, hint: 'Use a smaller file, or raise sandbox.limits in the configuration.' },
  disk_full: { status: 507, hint: 'Remove files of this conversation, or raise sandbox.limits.diskBytes.' },
  workspace_busy: {
    status: 409,
    hint: 'Another run works with the files of this conversation. Wait for its end, or cancel it.',
    retryable: true,
  },
  too_many: {
    status: 429,
    hint: 'Try again when other runs have ended, or raise sandbox.perUser and sandbox.total.',
    retryable: true,
  },
});
