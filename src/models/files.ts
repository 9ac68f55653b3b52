// What a model gets of the files in a conversation: text is written out, images and PDFs go as data to hosts that take
// them, and anything else is refused while it is new and named by a line later on.
import { AgentError } from '../kernel/errors.ts';
import type { FilePart, Message, TextPart } from '../kernel/messages.ts';
import type { ModelRequest } from '../kernel/model.ts';
import { clip } from '../kernel/project.ts';
import { modelsError } from './errors.ts';

export const fileKinds = ['image', 'pdf'] as const;

/** What a host may take beside text. */
export type FileKind = (typeof fileKinds)[number];

export interface FileData {
  type: 'data';
  kind: FileKind;
  name: string;
  mime: string;
  data: Uint8Array;
}

/** By the very part of the request's messages: the same file may be new in one place and old in another. */
export type ShownFiles = ReadonlyMap<FilePart, TextPart | FileData>;

export interface FileHost {
  provider: string;
  /** The model, as people know it. */
  name: string;
  takes: readonly FileKind[];
}

/** Where the configuration does not say; `host` is the name or the protocol of a host. */
export function defaultFiles(host: string): readonly FileKind[] {
  if (host === 'deepseek') return [];
  return host === 'openai' || host === 'anthropic' ? fileKinds : ['image'];
}

/** Longer texts are shown by head and tail. In characters. */
const MAX_TEXT = 200_000;

/** Of texts in one request: so far back older ones are written out. In characters. */
const MAX_TEXTS = 400_000;

/** Of images and PDFs in one request; hosts refuse requests above 32 MB and more, and base64 adds a third. */
const MAX_DATA_BYTES = 24_000_000;

export function hasFiles({ load, messages }: ModelRequest): boolean {
  const isFile = ({ type }: { type: string }) => type === 'file';
  return load !== undefined && messages.some((message) => message.role === 'user' && message.parts.some(isFile));
}

export interface Asking<T> {
  host: FileHost;
  signal: AbortSignal;
  ask: (files: ShownFiles) => Promise<T>;
}

/**
 * Asks with the files as the host is known to take them, and once more where it refuses them all the same: then a file
 * of an earlier turn is but named, and one of the current turn is refused as by `showFiles`.
 */
export async function askWithFiles<T>(request: ModelRequest, { host, signal, ask }: Asking<T>): Promise<T> {
  const files = await showFiles(request, host, signal);
  try {
    return await ask(files);
  } catch (error) {
    const hasData = [...files.values()].some(({ type }) => type === 'data');
    if (!hasData || !(error instanceof AgentError) || error.code !== 'models.file_unsupported') throw error;
  }
  return await ask(await showFiles(request, { ...host, takes: [] }, signal));
}

/**
 * Loads what can be shown. Throws `models.file_unsupported` for a file of the current turn that the host does not take,
 * before anything is loaded; a file of an earlier turn becomes a line of text, and so does one that cannot be loaded.
 */
export async function showFiles(request: ModelRequest, host: FileHost, signal: AbortSignal): Promise<ShownFiles> {
  const { messages, load } = request;
  const turn = messages.findLastIndex(({ role }) => role === 'user');
  const shown = new Map<FilePart, TextPart | FileData>();
  const wanted: { file: FilePart; kind: FileKind | 'text' }[] = [];
  const free = { data: MAX_DATA_BYTES, text: MAX_TEXTS };
  for (let i = messages.length - 1; i >= 0; i--) {
    for (const file of filesOf(messages[i]!)) {
      const kind = kindOf(file.mime);
      const isTaken = kind === 'text' || (kind !== 'other' && host.takes.includes(kind));
      if (kind === 'text') free.text -= Math.min(file.bytes, MAX_TEXT);
      else if (isTaken) free.data -= file.bytes;
      const isTooMuch = isTaken && (kind === 'text' ? i < turn && free.text < 0 : free.data < 0);
      if (isTaken && !isTooMuch) wanted.push({ file, kind });
      else if (i === turn) throw refusal(file, host, isTooMuch);
      else shown.set(file, { type: 'text', text: placeholder(file, isTooMuch) });
    }
  }
  for (const { file, kind } of wanted) shown.set(file, await show(file, kind));

  async function show(file: FilePart, kind: FileKind | 'text'): Promise<TextPart | FileData> {
    signal.throwIfAborted();
    let data: Uint8Array;
    try {
      data = await load!(file, signal);
    } catch {
      signal.throwIfAborted();
      return { type: 'text', text: `${toHeader(file)}\n[The content of this file is not available any more.]` };
    }
    const { name, mime } = file;
    if (kind !== 'text') return { type: 'data', kind, name: toLine(name), mime, data };
    return { type: 'text', text: `${toHeader(file)}\n${clip(toText(data), MAX_TEXT)}` };
  }
  return shown;
}

/** The parts of a message as they go out: what is text and follows text is one part with it. */
export function contentOf(parts: readonly (TextPart | FilePart)[], files: ShownFiles): (TextPart | FileData)[] {
  const content: (TextPart | FileData)[] = [];
  for (const part of parts) {
    const next = part.type === 'text' ? part : (files.get(part) ?? { type: 'text' as const, text: toHeader(part) });
    const last = content.at(-1);
    if (next.type === 'text' && last?.type === 'text') {
      content[content.length - 1] = { type: 'text', text: `${last.text}\n${next.text}` };
    } else content.push(next);
  }
  return content;
}

export function filesOf(message: Message): FilePart[] {
  return message.role === 'user' ? message.parts.filter((part) => part.type === 'file') : [];
}

const toLine = (name: string): string => name.replace(/\s+/g, ' ').toWellFormed();

/** Names a file to the model. */
export const toHeader = ({ name, mime, bytes }: FilePart): string => `[file ${toLine(name)} (${mime}, ${bytes} bytes)]`;

const TEXTS = new RegExp(
  String.raw`^text/|\+(json|xml|yaml)$|^application/(json|jsonl|json5|ndjson|xml|yaml|csv|toml|sql|graphql|rtf|typescript` +
    String.raw`|(x-|ecma|java)?(javascript|script)|x-(ndjson|yaml|toml|sh|csh|shellscript|python|python-code|ruby|perl|php|httpd-php|tex|latex|sql|typescript|subrip))$`,
);

function kindOf(mime: string): FileKind | 'text' | 'other' {
  if (/^image\/(png|jpeg|gif|webp)$/.test(mime)) return 'image';
  if (mime === 'application/pdf') return 'pdf';
  return TEXTS.test(mime) ? 'text' : 'other';
}

/** What is no UTF-8 is read as such all the same, unless it says that it is UTF-16. */
function toText(data: Uint8Array): string {
  const [first, second] = data;
  const isUtf16 = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  return new TextDecoder(isUtf16 ? (first === 0xff ? 'utf-16le' : 'utf-16be') : 'utf-8').decode(data);
}

function placeholder(file: FilePart, isTooMuch: boolean): string {
  const name = toLine(file.name);
  if (isTooMuch) return `[file ${name}: left out, as the files of this conversation are too large together]`;
  const kind = kindOf(file.mime);
  if (kind === 'image') return `[image ${name}: this model cannot see images]`;
  if (kind === 'pdf') return `[PDF ${name}: this model cannot read PDF files]`;
  return `[file ${name} (${file.mime}): this model cannot read such files]`;
}

function refusal(file: FilePart, { provider, name, takes }: FileHost, isTooMuch: boolean) {
  const what = `"${toLine(file.name)}" (${file.mime})`;
  const data = { file: file.id, mime: file.mime, model: name, provider };
  if (isTooMuch) {
    const hint = 'Send fewer or smaller files at once.';
    const most = `${MAX_DATA_BYTES / 1_000_000} MB`;
    return modelsError(
      'file_unsupported',
      `With ${what} the files of this message are more than ${most} for ${name}.`,
      {
        hint,
        data,
      },
    );
  }
  const taken = ['text', ...takes.map((kind) => (kind === 'pdf' ? 'PDF files' : 'images'))].join(', ');
  const message = `The model ${name} of ${provider} cannot take the file ${what}. It takes: ${taken}.`;
  return modelsError('file_unsupported', message, { data });
}
