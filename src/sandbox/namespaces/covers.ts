// What commands must not see of the folders of programs that they see: a server may be installed below /usr, as in /usr/src/app
// of a container, and has its data, keys and conversations there.
import { realpathSync, statSync } from 'node:fs';

const kinds = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'libexec', 'share'];
/** Nothing runs without them, so they are never covered. */
const needed = ['/', '/usr', '/usr/local'].flatMap((parent) => [parent, ...kinds.map((kind) => under(parent, kind))]);
/** Sources and settings of programs of this host: they may hold what is private, and no program of a command needs them. */
const always = ['/usr/src', '/usr/local/src', '/usr/etc', '/usr/local/etc'];

/**
 * The folders to be covered by an empty one, where `shown` are the folders of the host that commands see: of `hidden` and of
 * what is always covered, whatever is there now and is below one of `shown`. None is below another. Of `hidden`, folders
 * that programs need are left out; the probe sees these.
 */
export function toCovers(hidden: readonly string[], shown: readonly string[]): string[] {
  const covers = [...always, ...hidden]
    .map(find)
    .filter((path) => path !== undefined)
    .filter((path) => shown.some((folder) => isBelow(path, folder)))
    .filter((path) => !needed.some((one) => one === path || isBelow(one, path)));
  return [...new Set(covers)].filter((path) => !covers.some((other) => isBelow(path, other)));
}

function under(parent: string, name: string): string {
  return parent === '/' ? `/${name}` : `${parent}/${name}`;
}

const isBelow = (path: string, folder: string): boolean => path !== folder && path.startsWith(under(folder, ''));

/** Undefined where nothing is there. */
function find(path: string): string | undefined {
  try {
    return toClosed(realpathSync(path));
  } catch {
    return undefined;
  }
}

/**
 * The first folder on the way that the user of commands cannot enter, where this server is root and they are another's;
 * else the path. Nor can the makers of sandboxes enter it, so what is in it cannot be covered by itself.
 */
function toClosed(path: string): string {
  if (process.getuid?.() !== 0) return path;
  const names = path.split('/').slice(1);
  const way = names.map((_, index) => `/${names.slice(0, index + 1).join('/')}`);
  return way.find((folder) => !(statSync(folder).mode & 0o001)) ?? path;
}
