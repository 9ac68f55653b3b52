// Puts tool calls together from the deltas of a chat-completions stream, also from hosts that leave out or repeat the
// index, the id or the name, send arguments as an object, or number all calls 0.
import type { ModelPart } from '../kernel/model.ts';
import { isRecord, parseJson } from './json.ts';

type CallPart = Extract<ModelPart, { type: 'tool_call' }>;

export interface CallAssembly {
  /** Takes the `tool_calls` of one delta, whatever it is. True when it held anything. */
  add(deltas: unknown): boolean;
  /** The calls, in the order in which they began. Ids are as the host wrote them: maybe empty, maybe repeated. */
  parts(): CallPart[];
}

interface OpenCall {
  index: number | undefined;
  id: string;
  name: string;
  args: string;
}

interface Piece extends OpenCall {
  /** The arguments came as an object, so they are all there. */
  isObject: boolean;
}

export function createCallAssembly(): CallAssembly {
  const calls: OpenCall[] = [];

  function target(piece: Piece, touched: ReadonlySet<OpenCall>): OpenCall | undefined {
    const { index, id, name } = piece;
    if (index !== undefined) {
      const known = calls.findLast((call) => call.index === index) ?? findId(id, (call) => call.index === undefined);
      // An unknown number without an id or a name goes on with what was open: such hosts count deltas, not calls.
      return known ?? (id || name ? undefined : calls.at(-1));
    }
    if (id) return findId(id) ?? (name ? undefined : calls.at(-1));
    const last = calls.at(-1);
    if (!last || !name) return last;
    const isSame = !touched.has(last) && (last.name === name ? !isWhole(last.args) : !last.args && !piece.args);
    return isSame ? last : undefined;
  }

  const findId = (id: string, fits: (call: OpenCall) => boolean = () => true) =>
    id ? calls.findLast((call) => call.id === id && fits(call)) : undefined;

  return {
    add(deltas) {
      const list: unknown[] = Array.isArray(deltas) ? deltas : [deltas];
      const touched = new Set<OpenCall>();
      for (const delta of list) {
        const piece = toPiece(delta);
        if (!piece) continue;
        let call = target(piece, touched);
        if (!call || isNext(call, piece)) {
          call = { index: piece.index, id: '', name: '', args: '' };
          calls.push(call);
        }
        extend(call, piece);
        touched.add(call);
      }
      return touched.size > 0;
    },
    parts: () =>
      calls
        .filter(({ name, args }) => name || args)
        .map(({ id, name, args }) => ({ type: 'tool_call', id, name, args })),
  };
}

function toPiece(delta: unknown): Piece | undefined {
  if (!isRecord(delta)) return undefined;
  const { index, id } = delta;
  const body = isRecord(delta.function) ? delta.function : delta;
  const args = body.arguments;
  const isObject = typeof args === 'object' && args !== null;
  return {
    index: typeof index === 'number' ? index : undefined,
    id: typeof id === 'string' || typeof id === 'number' ? String(id) : '',
    name: typeof body.name === 'string' ? body.name : '',
    args: isObject ? JSON.stringify(args) : typeof args === 'string' ? args : '',
    isObject,
  };
}

/** Whether a piece that points at a call begins another one: it is named, and cannot be a part of this call. */
function isNext(call: OpenCall, piece: Piece): boolean {
  if (!piece.name || !call.name) return false;
  if (piece.id && call.id && piece.id !== call.id) {
    // Some hosts make up a new id for each piece.
    const isRest = piece.name === call.name && piece.args !== '' && !piece.args.trimStart().startsWith('{');
    return !isRest || isWhole(call.args);
  }
  if (piece.id && piece.id === call.id && piece.index !== undefined && piece.name === call.name) return false;
  return piece.args !== '' && (piece.name !== call.name || piece.args !== call.args) && isWhole(call.args);
}

function extend(call: OpenCall, piece: Piece): void {
  call.id ||= piece.id;
  if (piece.name.startsWith(call.name)) call.name = piece.name;
  else call.name += piece.name;
  const { args } = piece;
  if (piece.isObject) {
    if (!call.args || args !== '{}') call.args = args;
  } else if (args.startsWith('{') && isWhole(call.args)) {
    // Some gateways begin with "{}" and then send the arguments, others repeat them whole at the end. Whatever else
    // comes makes them broken: better no call than one with half of what was said.
    if (call.args === '{}') call.args = args;
    else if (!isSame(call.args, args)) call.args += args;
  } else {
    call.args += args;
  }
}

const isWhole = (args: string): boolean => args.endsWith('}') && parseJson(args) !== undefined;

const isSame = (one: string, other: string): boolean =>
  one === other || JSON.stringify(parseJson(one)) === JSON.stringify(parseJson(other));
