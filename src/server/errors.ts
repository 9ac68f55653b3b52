import { AgentError, defineErrors } from '../kernel/index.ts';
import { isTransient, storeError } from '../store/errors.ts';

export const serverError = defineErrors('server', {
  invalid_request: { status: 400, hint: 'Correct the named field and send the request again.' },
  invalid_json: { status: 400, hint: 'Send the body as JSON in UTF-8.' },
  body_too_large: { status: 413, hint: 'Send less text at once.' },
  unsupported_media_type: { status: 415, hint: 'Send "Content-Type: application/json".' },
  unauthorized: {
    status: 401,
    hint: 'Send "Authorization: Bearer <HOMARD_TOKEN>", or open a sign-in link: "homard link" prints one.',
  },
  link_expired: { status: 401, hint: 'A link works once and for 15 minutes. "homard link" prints a new one.' },
  host_refused: {
    status: 403,
    hint: 'Open the server by its own address, or add the name to "hosts" in homard.config.yaml.',
  },
  origin_refused: {
    status: 403,
    hint: 'Only pages of this server may call it. Add the origin to "hosts" to allow it.',
  },
  not_found: { status: 404, hint: 'See docs/ARCHITECTURE.md for the routes.' },
  conversation_not_found: { status: 404, hint: 'GET /conversations lists what there is.' },
  file_not_found: { status: 404, hint: 'Send the file to POST /files again: it answers the id.' },
  file_too_large: { status: 413, hint: 'Send a smaller file, or raise "fileLimitBytes" in homard.config.yaml.' },
  no_sandbox: { status: 404, hint: 'Set sandbox.kind in homard.config.yaml to something else than off.' },
  history_differs: {
    status: 409,
    hint: 'Send only the new message (or "query"); the server keeps the history. Fork the conversation to change it.',
  },
  internal: { status: 500, hint: 'Try again. The server log has the details under this request id.' },
});

export interface ErrorBody {
  error: { code: string; message: string; hint: string; requestId: string; data?: AgentError['data'] };
}

function toKnown(error: unknown): AgentError {
  if (isTransient(error)) return storeError('unavailable', 'The database did not answer.', { cause: error });
  return serverError('internal', 'Something went wrong in the server.', { cause: error });
}

/** Any error as people may see it: ours as it is, everything else without its words. */
export function toErrorBody(error: unknown, requestId: string): { status: number; body: ErrorBody } {
  const known = error instanceof AgentError ? error : toKnown(error);
  const { code, message, hint, status, data } = known;
  return { status, body: { error: { code, message, hint, requestId, ...(data && { data }) } } };
}
