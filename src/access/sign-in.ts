// How the owner of a standalone server proves who they are: a bearer token, from the environment or made once, or a cookie
// that a one-time link gave. Links are files, so that another process (`homard link`) can make one while the server runs.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { constants, copyFile, link, mkdir, readdir, readFile, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defineErrors } from '../kernel/index.ts';
import type { Caller, Identity } from './identity.ts';
import { bearerOf } from './identity.ts';

export const accessError = defineErrors('access', {
  secret_unreadable: {
    status: 500,
    hint: 'Delete the file: a new one is made at the next start, and everybody signs in anew.',
  },
  seal_broken: {
    status: 500,
    hint: 'Send the message again: the file "secret" of the data directory is another one now. Servers that share a database must share it.',
  },
});

const LINK_MINUTES = 15;
const COOKIE_DAYS = 30;
export const COOKIE = 'homard';

export interface SignIn {
  identity: Identity;
  /** The value of a `Set-Cookie` header, or null when the code is unknown, used or older than 15 minutes. */
  redeem(code: string): Promise<string | null>;
}

export interface SignInConfig {
  /** Directory for the cookie secret, the token and open links; made when absent. */
  directory: string;
  /** A bearer token that is the owner's; without it the one in the file `token`, which is made when absent. */
  token?: string;
  owner: Caller;
}

export async function createSignIn({ directory, token, owner }: SignInConfig): Promise<SignIn> {
  await mkdir(linksIn(directory), { recursive: true, mode: 0o700 });
  const secret = Buffer.from(await loadSecret(join(directory, 'secret')), 'hex');
  const wanted = sha256(token ?? (await loadSecret(tokenFileIn(directory))));
  const sign = (payload: string) => createHmac('sha256', secret).update(payload).digest('base64url');

  function fromCookie(header: string): Caller | null {
    const value = new RegExp(`(?:^|;\\s*)${COOKIE}=([^;]+)`).exec(header)?.[1] ?? '';
    const [expires, signature] = value.split('.');
    if (!expires || !signature || !isSame(signature, sign(expires)) || Number(expires) < Date.now()) return null;
    return owner;
  }

  return {
    identity(request) {
      const bearer = bearerOf(request);
      if (bearer !== null) return timingSafeEqual(wanted, sha256(bearer)) ? owner : null;
      const cookie = request.headers.get('cookie');
      return cookie ? fromCookie(cookie) : null;
    },
    async redeem(code) {
      const file = join(linksIn(directory), sha256(code).toString('hex'));
      try {
        const { mtimeMs } = await stat(file);
        await unlink(file); // of two who come at once, only one can
        if (Date.now() - mtimeMs > LINK_MINUTES * 60_000) return null;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
        throw error;
      }
      const expires = String(Date.now() + COOKIE_DAYS * 86_400_000);
      const attributes = `Path=/; HttpOnly; SameSite=Lax; Max-Age=${COOKIE_DAYS * 86_400}`;
      return `${COOKIE}=${expires}.${sign(expires)}; ${attributes}`;
    },
  };
}

/** Makes a one-time sign-in code, good for 15 minutes. */
export async function createSignInCode(directory: string): Promise<string> {
  await mkdir(linksIn(directory), { recursive: true, mode: 0o700 });
  await removeOldLinks(linksIn(directory));
  const code = randomBytes(24).toString('base64url');
  await writeFile(join(linksIn(directory), sha256(code).toString('hex')), '', { flag: 'wx', mode: 0o600 });
  return code;
}

/** Where the owner's token is when none is given. */
export const tokenFileIn = (directory: string) => join(directory, 'token');

/** The token that a server made there; undefined before its first start. */
export async function loadToken(directory: string): Promise<string | undefined> {
  return await readFile(tokenFileIn(directory), 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );
}

const linksIn = (directory: string) => join(directory, 'links');
async function removeOldLinks(links: string): Promise<void> {
  for (const name of await readdir(links)) {
    const file = join(links, name);
    const found = await stat(file).catch(() => undefined); // used meanwhile
    if (found && Date.now() - found.mtimeMs > LINK_MINUTES * 60_000) await rm(file, { force: true });
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest();

function isSame(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

/** 32 random bytes in hex, made once; whoever comes second reads what the first one wrote. */
export async function loadSecret(file: string): Promise<string> {
  // First: a server must start where nothing can be written any more.
  const secret = (await readSecret(file)) ?? (await makeSecret(file));
  if (!/^[0-9a-f]{64}$/.test(secret)) throw accessError('secret_unreadable', `${file} does not hold a secret.`);
  return secret;
}

async function readSecret(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function makeSecret(file: string): Promise<string> {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await writeFile(draft, randomBytes(32).toString('hex'), { mode: 0o600, flush: true });
    await link(draft, file).catch(() => copyFile(draft, file, constants.COPYFILE_EXCL)); // volumes without hard links
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  return (await readFile(file, 'utf8')).trim();
}
