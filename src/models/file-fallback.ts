// Files that a host refuses: those of earlier turns are left out and the host is asked once more, so that one bad file does
// not end a conversation; one of the current turn is refused by name.
import { AgentError } from '../kernel/errors.ts';
import type { FilePart } from '../kernel/messages.ts';
import type { ModelPart, ModelRequest } from '../kernel/model.ts';
import { isKindRefusal, modelsError } from './errors.ts';
import type { FileData, FileHost, FileKind, ShownFiles } from './files.ts';
import { filesOf, isSent, leftOut, placeholder, showFiles, toLine, turnOf } from './files.ts';

export interface Asking<T> {
  host: FileHost;
  signal: AbortSignal;
  on: (part: ModelPart) => void;
  ask: (files: ShownFiles, on: (part: ModelPart) => void) => Promise<T>;
}

/** Asks with the files as the host is known to take them; what it refuses all the same is learned. */
export async function askWithFiles<T>(request: ModelRequest, { host, signal, on, ask }: Asking<T>): Promise<T> {
  const files = await showFiles(request, host, { signal, on });
  let hasBegun = false;
  const listen = (part: ModelPart) => {
    if (part.type !== 'warning') hasBegun = true;
    on(part);
  };
  const turn = request.messages[turnOf(request.messages)];
  const fresh = new Set(turn ? filesOf(turn) : []);
  try {
    return await ask(files, listen);
  } catch (error) {
    if (hasBegun || !isRefusal(error)) throw error;
    const isLong = error.code === 'models.context_length';
    // Written-out texts are to blame for a length only.
    const isSuspect = ([file, shown]: [FilePart, ReturnType<ShownFiles['get']>]) =>
      !fresh.has(file) && isSent(file, shown) && (isLong || shown?.type === 'data');
    const old = [...files].filter(isSuspect).map(([file]) => file);
    if (!old.length) throw blame(error, host, { files, fresh });
    const isKind = isKindRefusal(error);
    const fewer = new Map(files);
    for (const file of old) {
      fewer.set(file, isKind ? { type: 'text', text: placeholder(file) } : leftOut(file));
    }
    try {
      const answer = await ask(fewer, listen);
      learn(host, { error, files, old, fresh });
      return answer;
    } catch (second) {
      throw hasBegun || !isRefusal(second) ? second : blame(second, host, { files: fewer, fresh });
    }
  }
}

const CODES = new Set(['models.bad_request', 'models.context_length', 'models.file_unsupported']);

const isRefusal = (error: unknown): error is AgentError => error instanceof AgentError && CODES.has(error.code);

interface Sent {
  files: ShownFiles;
  fresh: ReadonlySet<FilePart>;
}

const dataOf = ({ files }: Sent, isWanted: (file: FilePart) => boolean): [FilePart, FileData][] =>
  [...files].filter((pair): pair is [FilePart, FileData] => pair[1].type === 'data' && isWanted(pair[0]));

/** The refusal by the names of the current turn's files, where it is about them; else as it is. */
function blame(error: AgentError, { provider, name }: FileHost, sent: Sent): AgentError {
  const blamed = dataOf(sent, (file) => sent.fresh.has(file)).map(([file]) => file);
  const isAbout =
    error.code === 'models.file_unsupported' ||
    error.data?.httpStatus === 413 ||
    (error.code === 'models.bad_request' &&
      /\b(images?|image_url|pdfs?|documents?|base64|file_data)\b/i.test(error.message));
  const [first] = blamed;
  if (!first || !isAbout) return error;
  const names = blamed.map((file) => `"${toLine(file.name)}" (${file.mime})`).join(', ');
  const message = `The model ${name} of ${provider} did not take ${names}. ${error.message}`;
  const data = { ...error.data, file: first.id, mime: first.mime, model: name, provider };
  const hint = 'Send a smaller or another file, choose a model that takes such files, or send what matters as text.';
  return modelsError('file_unsupported', message, { data, cause: error, ...(!isKindRefusal(error) && { hint }) });
}

/** After the host took the request without the old files. */
function learn(host: FileHost, { error, old, ...sent }: Sent & { error: AgentError; old: readonly FilePart[] }): void {
  for (const file of old) host.refused.add(file);
  if (!isKindRefusal(error)) return;
  const kindsOf = (pairs: [FilePart, FileData][]) => new Set(pairs.map(([, { kind }]) => kind));
  const taken = kindsOf(dataOf(sent, (file) => sent.fresh.has(file)));
  const refused = [...kindsOf(dataOf(sent, (file) => !sent.fresh.has(file)))].filter((kind) => !taken.has(kind));
  const words: Record<FileKind, RegExp> = { image: /image|vision/i, pdf: /pdf|\bfiles?\b|document/i };
  const named = refused.filter((kind) => words[kind].test(error.message));
  const learned = named.length ? named : refused;
  host.takes = host.takes.filter((kind) => !learned.includes(kind));
}
