// The built page: a fixed list of files, each compressed once and kept in memory. Only names of that list are served, so no
// path leads out of its folder. The page holds no data, so whoever can connect may have it.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

export interface Page {
  /** The answer to a GET or HEAD; undefined for what is none of the page's addresses, or while it is not built. */
  respond(request: Request): Promise<Response | undefined>;
  isBuilt(): Promise<boolean>;
}

type Coding = 'br' | 'gzip' | 'identity';

type Bytes = Uint8Array<ArrayBuffer>;

interface Asset {
  path: string;
  type: string;
  /** Read when it is first asked for. */
  content?: Promise<{ etag: string; plain: Bytes }>;
  encoded: Partial<Record<Coding, Promise<Bytes>>>;
}

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
};
/** The others are compressed already. */
const COMPRESSED = /^(?:text\/|application\/|image\/svg)/;

/** Nothing from another host, no script in a page, in nobody's frame. Inline styles: rows of long lists are placed by them. */
const CSP = `default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`;

const HEADERS = {
  'content-security-policy': CSP,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  vary: 'accept, accept-encoding',
};

/** Addresses that a person opens; the page itself finds out what to show. */
const SHOWN = /^\/(?:c\/.*|setup|settings|sign-in|sign-in-needed)?$/s;

/** Where the page that ships is: beside the compiled server, in a checkout where its build puts it. */
export function pageDirectory(): string {
  const packed = fileURLToPath(new URL('../web/', import.meta.url));
  return existsSync(join(packed, 'index.html')) ? packed : fileURLToPath(new URL('../../web/dist/', import.meta.url));
}

export function createPage(directory: string): Page {
  let built: { stamp: string; assets: Promise<Map<string, Asset>> } | undefined;

  /** Undefined while there is no build. A new one is seen when somebody opens the page anew. */
  async function assets(): Promise<Map<string, Asset> | undefined> {
    const index = await stat(join(directory, 'index.html')).catch(() => undefined);
    if (!index?.isFile()) return undefined;
    const stamp = `${index.mtimeMs} ${index.size} ${index.ino}`;
    if (built?.stamp !== stamp) built = { stamp, assets: listAssets(directory) };
    return await built.assets;
  }

  return {
    isBuilt: async () => (await assets()) !== undefined,
    async respond(request) {
      if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
      const { pathname, searchParams } = new URL(request.url);
      const isShown = SHOWN.test(pathname) && acceptsHtml(request) && !searchParams.has('code');
      if (!isShown && !TYPES[extname(pathname)]) return undefined;
      try {
        const known = isShown ? await assets() : await (built?.assets ?? assets());
        const asset = known?.get(isShown ? '/index.html' : pathname);
        return asset && (await toResponse(asset, request, pathname));
      } catch (error) {
        // A build that is replaced right now: the next request looks anew.
        built = undefined;
        throw error;
      }
    },
  };
}

/** As a browser does that opens an address; programs take anything, or name JSON. */
export function acceptsHtml(request: Request): boolean {
  return /\btext\/html\b/i.test(request.headers.get('accept') ?? '');
}

async function listAssets(directory: string): Promise<Map<string, Asset>> {
  const found = await readdir(directory, { recursive: true, withFileTypes: true });
  const assets = new Map<string, Asset>();
  for (const file of found) {
    const type = TYPES[extname(file.name)];
    if (!file.isFile() || !type) continue;
    const path = join(file.parentPath, file.name);
    const name = path.slice(join(directory, '/').length).split(/[/\\]/).map(encodeURIComponent).join('/');
    assets.set(`/${name}`, { path, type, encoded: {} });
  }
  return assets;
}

async function load(path: string): Promise<{ etag: string; plain: Bytes }> {
  const plain = new Uint8Array(await readFile(path));
  return { etag: createHash('sha256').update(plain).digest('base64url').slice(0, 22), plain };
}

async function toResponse(asset: Asset, request: Request, pathname: string): Promise<Response> {
  const { type, path, encoded } = asset;
  const { etag, plain } = await (asset.content ??= load(path));
  const coding = COMPRESSED.test(type) ? codingOf(request.headers.get('accept-encoding') ?? '') : 'identity';
  const tag = coding === 'identity' ? `"${etag}"` : `"${etag}-${coding}"`;
  // Their names change with their contents.
  const isHashed = pathname.startsWith('/assets/');
  const headers = new Headers({
    ...HEADERS,
    'content-type': type,
    'cache-control': isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
    etag: tag,
    ...(coding !== 'identity' && { 'content-encoding': coding }),
  });
  if (isKnown(request.headers.get('if-none-match'), tag)) return new Response(null, { status: 304, headers });
  const body = coding === 'identity' ? plain : await (encoded[coding] ??= encode(plain, coding));
  headers.set('content-length', String(body.byteLength));
  return new Response(request.method === 'HEAD' ? null : body, { headers });
}

function isKnown(header: string | null, tag: string): boolean {
  const known = (header ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''));
  return known.includes(tag) || known.includes('*');
}

function codingOf(accepted: string): Coding {
  const taken = accepted
    .toLowerCase()
    .split(',')
    .filter((each) => !/;\s*q=0(?:\.0*)?\s*$/.test(each))
    .map((each) => each.split(';', 1)[0]!.trim());
  return taken.includes('br') ? 'br' : taken.includes('gzip') ? 'gzip' : 'identity';
}

async function encode(content: Bytes, coding: Coding): Promise<Bytes> {
  // The highest levels take a second for a few percent, and the first visitor would wait for it.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 6, [constants.BROTLI_PARAM_SIZE_HINT]: content.byteLength };
  const encoded =
    coding === 'br' ? await promisify(brotliCompress)(content, { params }) : await promisify(gzip)(content);
  return new Uint8Array(encoded);
}
