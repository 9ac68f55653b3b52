// A page of plain objects: Vue draws into it as into a browser, so that a test sees each element, attribute and removal.
import { createRenderer, type App, type Component, reactive, h, nextTick } from 'vue';

export interface Element {
  kind: 'element';
  tag: string;
  attributes: Record<string, unknown>;
  children: Node[];
  parent: Element | null;
}
export interface Text {
  kind: 'text' | 'comment';
  text: string;
  parent: Element | null;
}
export type Node = Element | Text;

export interface Page {
  root: Element;
  removed: number;
  update(props: Record<string, unknown>): Promise<void>;
  close(): void;
}

const element = (tag: string): Element => ({ kind: 'element', tag, attributes: {}, children: [], parent: null });

function detach(node: Node): void {
  const siblings = node.parent?.children ?? [];
  const at = siblings.indexOf(node);
  if (at >= 0) siblings.splice(at, 1);
  node.parent = null;
}

function place(node: Node, parent: Element, anchor?: Node | null): void {
  detach(node);
  const at = anchor ? parent.children.indexOf(anchor) : parent.children.length;
  parent.children.splice(at, 0, node);
  node.parent = parent;
}

export function open(component: Component, props: Record<string, unknown>): Page {
  const page: Page = { root: element('root'), removed: 0, update, close: () => app.unmount() };
  const { createApp } = createRenderer<Node, Element>({
    createElement: (tag) => element(tag),
    createText: (text) => ({ kind: 'text', text, parent: null }),
    createComment: (text) => ({ kind: 'comment', text, parent: null }),
    insert: place,
    remove(node) {
      if (node.kind === 'element') page.removed++;
      detach(node);
    },
    setText(node, text) {
      if (node.kind !== 'element') node.text = text;
    },
    setElementText(node, text) {
      node.children = text ? [{ kind: 'text', text, parent: node }] : [];
    },
    parentNode: (node) => node.parent,
    nextSibling(node) {
      const siblings = node.parent?.children ?? [];
      return siblings[siblings.indexOf(node) + 1] ?? null;
    },
    patchProp(node, name, _before, value) {
      if (value === null || value === undefined) delete node.attributes[name];
      else node.attributes[name] = value;
    },
  });
  const state = reactive({ ...props });
  const app: App<Element> = createApp({ render: () => h(component, { ...state }) });
  app.mount(page.root);
  return page;

  async function update(next: Record<string, unknown>): Promise<void> {
    Object.assign(state, next);
    await nextTick();
  }
}

export function elements(node: Node, tag?: string): Element[] {
  if (node.kind !== 'element') return [];
  const inside = node.children.flatMap((child) => elements(child, tag));
  return tag === undefined || node.tag === tag ? [node, ...inside] : inside;
}

export function textOf(node: Node): string {
  if (node.kind !== 'element') return node.kind === 'text' ? node.text : '';
  return node.children.map(textOf).join('');
}

/** Compact form of what was drawn: `<p>a <strong>b</strong></p>`, with attributes in the order they came. */
export function htmlOf(node: Node): string {
  if (node.kind !== 'element') return node.kind === 'text' ? node.text : '';
  const attributes = Object.entries(node.attributes).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
  return `<${node.tag}${attributes.join('')}>${node.children.map(htmlOf).join('')}</${node.tag}>`;
}
