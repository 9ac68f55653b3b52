import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDraft } from '../../src/files/atomic.ts';
import { createBlobs } from '../../src/files/blobs.ts';

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'homard-blobs-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const ann = { tenant: 't', owner: 'ann' };
const filesIn = (path: string) =>
  globSync('**', { cwd: path, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

async function* from(...chunks: (string | Uint8Array)[]) {
  for (const chunk of chunks) yield await Promise.resolve(Buffer.from(chunk));
}

async function textOf(blobs: ReturnType<typeof createBlobs>, owner: typeof ann, id: string) {
  const handle = await blobs.open(owner, id);
  if (!handle) return undefined;
  try {
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

describe('a draft', () => {
  it('is nowhere to be seen until it is kept, then whole; folders are made', async () => {
    const path = join(folder, 'a', 'b', 'file');
    {
      await using draft = await openDraft(join(folder, 'drafts'));
      await draft.write(Buffer.from('one '));
      expect(existsSync(path)).toBe(false);
      await draft.write(Buffer.from('two'));
      await draft.keepAs(path);
    }
    expect(readFileSync(path, 'utf8')).toBe('one two');
    expect(filesIn(folder)).toEqual([path]);
  });

  it('that is not kept leaves nothing, and a file that is there stays as it was', async () => {
    const path = join(folder, 'file');
    writeFileSync(path, 'old');
    const failing = async () => {
      await using draft = await openDraft(folder);
      await draft.write(Buffer.from('new'));
      throw new Error('the source broke');
    };
    await expect(failing()).rejects.toThrow('the source broke');
    expect(filesIn(folder)).toEqual([path]);
    expect(readFileSync(path, 'utf8')).toBe('old');
  });

  it('replaces a file at once: a reader sees the old one or the new one', async () => {
    const path = join(folder, 'file');
    writeFileSync(path, 'a'.repeat(100_000));
    let isWriting = true;
    const seen = new Set<string>();
    const read = async () => {
      while (isWriting) {
        const text = readFileSync(path, 'utf8');
        seen.add(`${text.length}${text[0]}${text.at(-1)}`);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const reading = read();
    for (let i = 0; i < 20; i++) {
      await using draft = await openDraft(folder);
      for (let k = 0; k < 10; k++) await draft.write(Buffer.from('b'.repeat(20_000)));
      await draft.keepAs(path);
    }
    isWriting = false;
    await reading;
    for (const what of seen) expect(['100000aa', '200000bb']).toContain(what);
  });
});

describe('blobs', () => {
  it('are named by the hash of their content, however it came in pieces; the same content is one file', async () => {
    const blobs = createBlobs(folder);
    const hash = createHash('sha256').update('hello').digest('hex');
    expect(await blobs.write(ann, from('he', 'l', 'lo'))).toEqual({ id: hash, bytes: 5 });
    expect(await blobs.write(ann, from('hello'))).toEqual({ id: hash, bytes: 5 });
    expect(filesIn(folder)).toHaveLength(1);
    expect(filesIn(folder)[0]).toMatch(new RegExp(`/[0-9a-f]{32}/${hash.slice(0, 2)}/${hash}$`));
    expect(await textOf(blobs, ann, hash)).toBe('hello');
  });

  it('two uploads of one content at once both succeed', async () => {
    const blobs = createBlobs(folder);
    const ids = await Promise.all(Array.from({ length: 8 }, () => blobs.write(ann, from('same', 'thing'))));
    expect(new Set(ids.map(({ id }) => id)).size).toBe(1);
    expect(filesIn(folder)).toHaveLength(1);
  });

  it('a source that breaks leaves nothing', async () => {
    const blobs = createBlobs(folder);
    const broken = async function* () {
      yield* from('half');
      throw new Error('gone');
    };
    await expect(blobs.write(ann, broken())).rejects.toThrow('gone');
    expect(filesIn(folder)).toEqual([]);
  });

  it('a damaged file is healed by the next upload of its content', async () => {
    const blobs = createBlobs(folder);
    const { id } = await blobs.write(ann, from('whole'));
    writeFileSync(filesIn(folder)[0]!, 'ha');
    await blobs.write(ann, from('whole'));
    expect(await textOf(blobs, ann, id)).toBe('whole');
  });

  it("nobody reads another's file, and owners whose names join to the same text are two", async () => {
    const blobs = createBlobs(folder);
    const { id } = await blobs.write(ann, from('secret'));
    for (const other of [
      { tenant: 't', owner: 'bob' },
      { tenant: 'u', owner: 'ann' },
      { tenant: 'ta', owner: 'nn' },
      { tenant: 't","ann', owner: '' },
    ]) {
      expect(await blobs.open(other, id)).toBeUndefined();
    }
  });

  it('whatever owners and ids are called, nothing lies outside and nothing outside is read', async () => {
    writeFileSync(join(folder, 'outside'), 'outside');
    const root = join(folder, 'files');
    const blobs = createBlobs(root);
    const hostile = fc.oneof(
      fc.constantFrom('../../x', '..', '/', '/etc/passwd', 'a\0b', '\ud800', '😀', 'x'.repeat(5000), 'drafts', ''),
      fc.string({ unit: 'binary', maxLength: 20 }),
    );
    await fc.assert(
      fc.asyncProperty(hostile, hostile, hostile, async (tenant, owner, id) => {
        const { id: real } = await blobs.write({ tenant, owner }, from(`content of ${owner.length}`));
        expect(await blobs.open({ tenant, owner }, id)).toBeUndefined();
        expect(await blobs.open({ tenant, owner }, `../${real}`)).toBeUndefined();
        expect(await blobs.open({ tenant, owner }, real.toUpperCase())).toBeUndefined();
        expect(await textOf(blobs, { tenant, owner }, real)).toBe(`content of ${owner.length}`);
      }),
      { numRuns: 60 },
    );
    for (const path of filesIn(folder)) {
      if (path === join(folder, 'outside')) continue;
      expect(path.slice(root.length).split(sep).slice(1).join('/')).toMatch(
        /^[0-9a-f]{32}\/[0-9a-f]{2}\/[0-9a-f]{64}$/,
      );
    }
  });

  it('removes what a process that died left behind, and nothing that may still be written', async () => {
    mkdirSync(join(folder, 'drafts'));
    const [old, young] = ['old', 'young'].map((name) => join(folder, 'drafts', `${name}.draft`));
    for (const path of [old!, young!]) writeFileSync(path, 'half');
    const then = Date.now() / 1000 - 7200;
    utimesSync(old!, then, then);
    await createBlobs(folder).write(ann, from('x'));
    expect(existsSync(old!)).toBe(false);
    expect(existsSync(young!)).toBe(true);
  });
});
