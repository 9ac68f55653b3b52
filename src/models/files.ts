// What a model gets of the files in a conversation: text is written out, images and PDFs go as data to hosts that take
// them, and anything else is refused while it is new and named by a line later on.
import { messageOf } from '../kernel/errors.ts';
import type { FilePart, Message, TextPart } from '../kernel/messages.ts';
import type { ModelPart, ModelRequest } from '../kernel/model.ts';
import { BYTES_PER_TOKEN, clip } from '../kernel/project.ts';
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
  /** Becomes less where the host refuses a kind. */
  takes: readonly FileKind[];
  /** Files of earlier turns that the host refused: they are not sent again. */
  refused: WeakSet<FilePart>;
}

/** Where the configuration does not say; `host` is the name or the protocol of a host. */
export function defaultFiles(host: string): readonly FileKind[] {
  if (host === 'deepseek') return [];
  return host === 'openai' || host === 'anthropic' ? fileKinds : ['image'];
}

/** Of texts of the current turn together; what is more is shown by head and tail. In bytes. */
const MAX_TEXTS = 200_000;

/** The same of earlier turns, the newest first. */
const MAX_OLD_TEXTS = 120_000;

/** Less of an old text is not worth showing. In bytes. */
const MIN_TEXT = 2000;

/** Of images and PDFs in one request; hosts refuse requests above 32 MB and more, and base64 adds a third. */
const MAX_DATA_BYTES = 24_000_000;

export function hasFiles({ load, messages }: ModelRequest): boolean {
  const isFile = ({ type }: { type: string }) => type === 'file';
  return load !== undefined && messages.some((message) => message.role === 'user' && message.parts.some(isFile));
}

export interface Showing {
  signal: AbortSignal;
  on: (part: ModelPart) => void;
}

/**
 * Loads what can be shown. Throws `models.file_unsupported` for a file of the current turn that the host does not take,
 * before anything is loaded, and for one that cannot be loaded; a file of an earlier turn becomes a line of text, and
 * what cannot be loaded of them is told by a warning `models.file_missing`, once a turn.
 */
export async function showFiles(request: ModelRequest, host: FileHost, showing: Showing): Promise<ShownFiles> {
  const { messages, load } = request;
  const { signal, on } = showing;
  const turn = turnOf(messages);
  const isFirstStep = turn === messages.length - 1;
  const { shown, wanted } = plan(request, host, turn);
  for (const want of wanted) shown.set(want.file, await show(want));

  async function show({ file, kind, isOld, bytes }: Wanted): Promise<TextPart | FileData> {
    signal.throwIfAborted();
    let data: Uint8Array;
    try {
      data = await load!(file, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!isOld) throw unreadable(file, error);
      const message = `The content of the file "${toLine(file.name)}" is not available any more.`;
      const about = { file: file.id, name: toLine(file.name) };
      if (isFirstStep) on({ type: 'warning', code: 'models.file_missing', message, data: about });
      return { type: 'text', text: `[file ${toLine(file.name)}: its content is not available any more]` };
    }
    if (kind !== 'text') return { type: 'data', kind, name: toLine(file.name), mime: file.mime, data };
    const text = toText(data);
    const shownText = bytes < file.bytes ? clip(text, Math.floor((text.length * bytes) / file.bytes)) : text;
    return { type: 'text', text: `${toHeader(file)}\n${shownText}` };
  }
  return shown;
}

/** Whose files are the current turn's; what is before it is old. */
export const turnOf = (messages: readonly Message[]): number => messages.findLastIndex(({ role }) => role === 'user');

interface Wanted {
  file: FilePart;
  kind: FileKind | 'text';
  isOld: boolean;
  /** Of a text: how much of it is shown. */
  bytes: number;
}

/** What is to be loaded; lines for the rest. */
function plan(request: ModelRequest, host: FileHost, turn: number) {
  const { messages } = request;
  const shown = new Map<FilePart, TextPart | FileData>();
  const wanted: Wanted[] = [];
  const isText = ({ mime }: FilePart) => kindOf(mime) === 'text';
  const fresh = turn < 0 ? 0 : filesOf(messages[turn]!).reduce((sum, file) => sum + (isText(file) ? file.bytes : 0), 0);
  const room = roomOf(request);
  const most = Math.min(fresh, MAX_TEXTS, room);
  const free = { data: MAX_DATA_BYTES, text: Math.min(MAX_OLD_TEXTS, room - most) };
  for (let i = messages.length - 1; i >= 0; i--) {
    for (const file of filesOf(messages[i]!)) {
      const isOld = i !== turn;
      const kind = kindOf(file.mime);
      const isTaken = kind === 'text' || (kind !== 'other' && host.takes.includes(kind));
      let bytes = file.bytes;
      if (kind === 'text') {
        bytes = isOld ? Math.min(bytes, free.text) : Math.floor((bytes * most) / Math.max(1, fresh));
        if (isOld && (bytes === file.bytes || bytes >= MIN_TEXT)) free.text -= bytes;
      } else if (isTaken && !(isOld && host.refused.has(file))) free.data -= bytes;
      const isCut = isOld && bytes < file.bytes && bytes < MIN_TEXT;
      const isTooMuch = isTaken && (kind === 'text' ? isCut : free.data < 0);
      if (isOld && isTaken && host.refused.has(file)) shown.set(file, leftOut(file));
      else if (isTaken && !isTooMuch) wanted.push({ file, kind, isOld, bytes });
      else if (isOld) shown.set(file, { type: 'text', text: placeholder(file, isTooMuch) });
      else throw refusal(file, host, isTooMuch);
    }
  }
  return { shown, wanted };
}

/**
 * What the messages leave of the window to the texts of files, in bytes. In quarters of the window, so that it stays the
 * same over most steps of a turn, and with it what the host has cached.
 */
function roomOf({ messages, windowTokens }: ModelRequest): number {
  if (windowTokens === undefined) return Number.POSITIVE_INFINITY;
  const all = windowTokens * BYTES_PER_TOKEN;
  const said = messages.reduce((sum, message) => sum + Buffer.byteLength(JSON.stringify(message)), 0);
  const left = Math.max(0, all - said);
  const quarter = all / 4;
  return left < quarter ? left : quarter * Math.floor(left / quarter);
}

/** In place of a file of an earlier turn that the host refused, or the request with it. */
export const leftOut = ({ name }: FilePart): TextPart => ({
  type: 'text',
  text: `[file ${toLine(name)}: left out, as the model's host refused it]`,
});

/** The content itself goes out, not only a line about it. */
export const isSent = (file: FilePart, shown: TextPart | FileData | undefined): boolean =>
  shown !== undefined && (shown.type === 'data' || shown.text.startsWith(`${toHeader(file)}\n`));

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

export const toLine = (name: string): string => name.replace(/\s+/g, ' ').toWellFormed();

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

export function placeholder(file: FilePart, isTooMuch = false): string {
  const name = toLine(file.name);
  if (isTooMuch) return `[file ${name}: left out, as the files of this conversation are too large together]`;
  const kind = kindOf(file.mime);
  if (kind === 'image') return `[image ${name}: this model cannot see images]`;
  if (kind === 'pdf') return `[PDF ${name}: this model cannot read PDF files]`;
  return `[file ${name} (${file.mime}): this model cannot read such files]`;
}

function unreadable(file: FilePart, cause: unknown) {
  const what = `"${toLine(file.name)}" (${file.mime})`;
  const data = { file: file.id, mime: file.mime };
  const hint = 'Send the file again.';
  const message = `The file ${what} cannot be read: ${messageOf(cause)} Send it again.`;
  return modelsError('file_unsupported', message, { hint, data, cause });
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
