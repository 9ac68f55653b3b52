// What a provider package throws, sorted into the errors that every model has.
import { AgentError, messageOf } from '../kernel/errors.ts';
import { installable } from './ai-sdk-packages.ts';
import { mask, modelsError, toCut, toNetworkError, toProviderError, toRefusal } from './errors.ts';
import { isRecord } from './json.ts';
import { reasonOf } from './node-fetch.ts';

interface ErrorContext {
  provider: string;
  secrets: readonly string[];
  hasBegun: boolean;
}

/** By shape: an error may come from another copy of the package, or be no Error at all. */
export function toError(error: unknown, { provider, secrets, hasBegun }: ErrorContext): AgentError {
  if (error instanceof AgentError) return error;
  const missing = missingPackage(error);
  if (missing) {
    const hint = `Run \`npm install ${installable(missing)}\` and start again, or choose another model.`;
    return modelsError('package_missing', `Models of ${provider} need the package ${missing}.`, { hint });
  }
  if (!isRecord(error)) return toProviderError({ provider, body: error, secrets });
  const name = typeof error.name === 'string' ? error.name : '';
  const status = typeof error.statusCode === 'number' ? error.statusCode : undefined;
  if (status !== undefined && status >= 400) {
    if (error.responseHeaders === undefined && error.responseBody === undefined) {
      // Reported inside a 200.
      return toProviderError({ provider, secrets, body: { message: error.message, type: error.type, status } });
    }
    const { responseBody } = error;
    const text = typeof responseBody === 'string' && responseBody ? responseBody : messageOf(error);
    return toRefusal({ provider, status, secrets, text, headers: error.responseHeaders });
  }
  const reason = reasonOf(error);
  if (reason) return hasBegun ? toCut(provider) : toNetworkError(reason, { provider });
  // A kind of file that the configuration allows and the package does not know.
  if (name === 'AI_UnsupportedFunctionalityError' && /file|image|media/i.test(messageOf(error))) {
    return modelsError(
      'file_unsupported',
      `${provider} does not take such files: ${mask(messageOf(error).slice(0, 300), secrets)}`,
    );
  }
  if (name === 'AI_LoadAPIKeyError') return modelsError('auth', `${provider} has no key.`);
  if (!(error instanceof Error) && !name) return toProviderError({ provider, body: error, secrets });
  const text = mask(messageOf(error).slice(0, 300), secrets);
  const isUnread = status !== undefined || /JSONParse|TypeValidation|EmptyResponseBody|InvalidResponse/.test(name);
  if (isUnread) {
    const hint = 'Check that the base URL of this host is that of its own protocol.';
    return modelsError('stream_invalid', `The answer of ${provider} cannot be read: ${text}`, { hint });
  }
  return modelsError('error', `${provider} failed: ${text}`);
}

function missingPackage(error: unknown): string | undefined {
  if (!isRecord(error) || error.code !== 'ERR_MODULE_NOT_FOUND') return undefined;
  return /'(@ai-sdk\/[\w-]+)'/.exec(messageOf(error))?.[1];
}
