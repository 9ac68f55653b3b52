// Draws one top-level Markdown block. Text reaches the page only as text nodes and as the few attributes written here.
import { defineComponent, h, type PropType, type VNode } from 'vue';
import { withoutBidiControls } from './characters.ts';
import { joinsWithoutSpace } from './cjk.ts';
import CodeBlock from './CodeBlock.vue';
import { hostOf, linkProps, safeHref } from './links.ts';
import { parseBlock, type References, type Token } from './parser.ts';
import { type MdStrings, mdStrings } from './strings.ts';

type Child = VNode | string;
type Wrap = (children: Child[]) => Child[];
interface Frame {
  wrap: Wrap;
  children: Child[];
  isLink: boolean;
}
interface Context {
  src: string;
  growing: boolean;
  rank: number;
  strings: MdStrings;
}

/** Longer blocks are shown as plain text: nothing a person reads, and cheap whatever it holds. */
export const MAX_BLOCK_CHARS = 200_000;
const TASK = /^\[([ xX])\](?:\s+|$)/;
/** Elements without attributes; all others are made below. What is in neither shows only its text. */
const PLAIN = new Set(['p', 'ul', 'li', 'blockquote', 'thead', 'tbody', 'tr', 'strong', 'em', 's']);

export const MdBlock = defineComponent({
  name: 'MdBlock',
  props: {
    src: { type: String, required: true },
    growing: { type: Boolean, default: false },
    rank: { type: Number, default: 0 },
    references: { type: Object as PropType<References>, default: () => ({}) },
  },
  setup(props) {
    return () => {
      if (props.src.length > MAX_BLOCK_CHARS) return [h('pre', { tabindex: 0 }, withoutBidiControls(props.src))];
      const tokens = parseBlock(props.src, props);
      return toChildren(tokens, { src: props.src, growing: props.growing, rank: props.rank, strings: mdStrings() });
    };
  },
});

function toChildren(tokens: readonly Token[], context: Context): Child[] {
  const root: Frame = { wrap: (children) => children, children: [], isLink: false };
  const frames = [root];
  tokens.forEach((token, index) => {
    const top = frames.at(-1) ?? root;
    if (token.nesting === 1) {
      frames.push({ wrap: wrapOf(tokens, index, context), children: [], isLink: token.type === 'link_open' });
    } else if (token.nesting === -1 && frames.length > 1) {
      frames.pop();
      append(frames.at(-1) ?? root, top.wrap(top.children));
    } else {
      const isInLink = frames.some((frame) => frame.isLink);
      append(top, leaf(tokens, index, { ...context, isInLink }));
    }
  });
  return root.children;
}

function append(frame: Frame, children: Child[]): void {
  for (const child of children) frame.children.push(child);
}

function wrapOf(tokens: readonly Token[], index: number, { rank, strings }: Context): Wrap {
  const token = tokens[index];
  if (!token || token.hidden) return (children) => children;
  const { tag } = token;
  if (tag === 'a') return linkWrap(token);
  if (tag === 'table') {
    const scroller = { class: 'md-table', role: 'group', tabindex: 0, 'aria-label': strings.table };
    return (children) => [h('div', scroller, [h('table', children)])];
  }
  if (tag === 'th' || tag === 'td') return (children) => [h(tag, cellProps(token), children)];
  if (tag === 'ol') {
    const start = Number(token.attrGet('start') ?? 1);
    return (children) => [h('ol', start === 1 ? {} : { start }, children)];
  }
  if (token.type === 'heading_open') {
    // Only headings of the text itself belong to its outline: one in a quotation is a bold line.
    const element = token.level === 0 && rank > 0 ? `h${rank}` : 'p';
    return (children) => [h(element, { class: `md-${tag}` }, children)];
  }
  if (tag === 'li') {
    const props = taskOf(tokens, index + 2) ? { class: 'md-task' } : {};
    return (children) => [h('li', props, children)];
  }
  return PLAIN.has(tag) ? (children) => [h(tag, children)] : (children) => children;
}

function leaf(tokens: readonly Token[], index: number, context: Context & { isInLink: boolean }): Child[] {
  const token = tokens[index];
  if (!token) return [];
  switch (token.type) {
    case 'inline':
      return inline(tokens, index, context);
    case 'softbreak':
      return [joinsWithoutSpace(tokens[index - 1]?.content ?? '', tokens[index + 1]?.content ?? '') ? '' : '\n'];
    case 'hardbreak':
      return [h('br')];
    case 'hr':
      return [h('hr')];
    case 'code_inline':
      return [h('code', withoutBidiControls(token.content))];
    case 'fence':
    case 'code_block':
      return [codeBlock(token, context)];
    case 'image':
      return image(token, context);
    default:
      return [withoutBidiControls(token.content)];
  }
}

function inline(tokens: readonly Token[], index: number, context: Context): Child[] {
  const token = tokens[index];
  const isDone = taskOf(tokens, index);
  const children = toChildren(token?.children ?? [], context);
  if (isDone === undefined) return children;
  const label = isDone === 'yes' ? context.strings.taskDone : context.strings.taskOpen;
  const box = h('span', { class: 'md-box', role: 'img', 'aria-label': label, 'data-done': isDone });
  const [first] = children;
  return [box, ...(typeof first === 'string' ? [first.replace(TASK, ''), ...children.slice(1)] : children)];
}

/** Whether the inline token at `index` is the start of a list item that opens with `[ ]` or `[x]`. */
function taskOf(tokens: readonly Token[], index: number): 'yes' | 'no' | undefined {
  if (tokens[index]?.type !== 'inline' || tokens[index - 2]?.type !== 'list_item_open') return undefined;
  const first = tokens[index].children?.[0];
  const mark = first?.type === 'text' ? TASK.exec(first.content) : undefined;
  if (!mark) return undefined;
  return mark[1] === ' ' ? 'no' : 'yes';
}

function linkWrap(token: Token): Wrap {
  const href = safeHref(String(token.attrGet('href') ?? ''));
  if (href === undefined) return (children) => children;
  return (children) => [h('a', linkProps(href), children.some((child) => child !== '') ? children : [hostOf(href)])];
}

/** A remote image is never loaded: its address can carry a conversation away. A link with its text stands there instead. */
function image(token: Token, { strings, isInLink }: Context & { isInLink: boolean }): Child[] {
  const href = safeHref(String(token.attrGet('src') ?? ''));
  const host = href === undefined ? '' : hostOf(href);
  const alt = withoutBidiControls(plainText(token.children ?? [])).trim();
  const label = [strings.image, alt].filter(Boolean).join(': ') + (host ? ` (${host})` : '');
  if (href === undefined || isInLink) return [h('span', { class: 'md-image' }, label)];
  return [h('a', { class: 'md-image', ...linkProps(href) }, label)];
}

function plainText(tokens: readonly Token[]): string {
  return tokens.map((token) => (token.children ? plainText(token.children) : token.content)).join('');
}

function codeBlock(token: Token, { src, growing }: Context): VNode {
  const lang = withoutBidiControls(token.info.trim().split(/\s+/)[0] ?? '').slice(0, 32);
  return h(CodeBlock, {
    code: token.content.replace(/\n$/, ''),
    lang,
    open: growing && token.type === 'fence' && !isClosed(token, src),
  });
}

function isClosed({ map, markup }: Token, src: string): boolean {
  const lines = src.split('\n');
  const last = map && map[1] - map[0] > 1 ? (lines[map[1] - 1] ?? '').replace(/^[\s>]+/, '').trimEnd() : '';
  return last.startsWith(markup) && last === (markup[0] ?? '').repeat(last.length);
}

function cellProps(token: Token): Record<string, string> {
  const props: Record<string, string> = token.tag === 'th' ? { scope: 'col' } : {};
  const align = /^text-align:(center|right)$/.exec(String(token.attrGet('style') ?? ''))?.[1];
  if (align) props.class = `md-${align}`;
  return props;
}
